package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// pair returns two connected Conns.
func pair(t *testing.T) (a, b *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var cs [2]*Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		cs[i] = NewConn(c.(*net.UnixConn), 0, 100*time.Millisecond)
		t.Cleanup(func() { cs[i].Close() })
	}
	return cs[0], cs[1]
}

func openFDs(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func TestSendReceive(t *testing.T) {
	a, b := pair(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	before := openFDs(t)
	want := &Message{Request: SetVringCall, Flags: FlagVersion | FlagNeedReply, Payload: []byte{1, 2, 3, 4, 5, 6, 7, 8}}
	for _, n := range []int{0, 1, 8, MaxFDs} {
		want.FDs = slices.Repeat([]int{int(null.Fd())}, n)
		if err := a.Send(want); err != nil {
			t.Fatal(err)
		}
		got, err := b.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if len(got.FDs) != n {
			t.Errorf("%d descriptors, want %d", len(got.FDs), n)
		}
		for _, fd := range got.FDs {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("descriptor %d: flags %#x, %v: would be inherited", fd, flags, err)
			}
		}
		taken := got.TakeFD()
		got.Close()
		if n > 0 {
			unix.Close(taken)
		} else if taken != -1 {
			t.Errorf("descriptor %d from nowhere", taken)
		}
		got.FDs = want.FDs
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if now := openFDs(t); now != before {
		t.Errorf("%d descriptors are open, were %d", now, before)
	}
}

// TestReceiveErrors: each leaves no descriptor open.
func TestReceiveErrors(t *testing.T) {
	head := Encode(&Header{Request: SetFeatures, Flags: 1, Size: 8})
	for _, tc := range []struct {
		name  string
		bytes []byte
		fds   int
		close bool
		want  error  // or
		text  string // a part of it
	}{
		{name: "end", close: true, want: io.EOF},
		{name: "end in the head", bytes: head[:5], fds: 1, close: true, want: io.ErrUnexpectedEOF},
		{name: "end in front of the payload", bytes: head, fds: 1, close: true, want: io.ErrUnexpectedEOF},
		{name: "end in the payload", bytes: append(slices.Clone(head), 1), fds: 1, close: true, want: io.ErrUnexpectedEOF},
		{name: "silence in the head", bytes: head[:5], fds: 1, want: os.ErrDeadlineExceeded},
		{name: "silence in front of the payload", bytes: head, fds: 1, want: os.ErrDeadlineExceeded},
		{name: "too many descriptors", bytes: head, fds: MaxFDs + 1, text: "more than 32"},
		{name: "as many as can be sent", bytes: head, fds: 253, text: "more than 32"},
		{name: "too long", bytes: Encode(&Header{Request: SetFeatures, Flags: 1, Size: MaxPayload + 1}), fds: 2, text: "4097 bytes"},
		{name: "other version", bytes: Encode(&Header{Request: SetFeatures, Flags: 2}), text: "version 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t)
			null, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			defer null.Close()
			before := openFDs(t)
			if len(tc.bytes) > 0 {
				if err := a.SendRaw(tc.bytes, slices.Repeat([]int{int(null.Fd())}, tc.fds)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.close {
				a.Close()
				before--
			}
			m, err := b.Receive()
			if m != nil || tc.want != nil && !errors.Is(err, tc.want) || tc.text != "" && (err == nil || !strings.Contains(err.Error(), tc.text)) {
				t.Errorf("got %v, %v", m, err)
			}
			if tc.want == io.EOF && err != io.EOF || tc.want != io.EOF && err == io.EOF {
				t.Errorf("end between messages and elsewhere are confused: %v", err)
			}
			if now := openFDs(t); now != before {
				t.Errorf("%d descriptors are open, were %d", now, before)
			}
		})
	}
}

// TestPayloadApart: head and payload may be written apart, as libvhost-user's
// peers do. Descriptors beside the payload are nobody's and must not stay open.
func TestPayloadApart(t *testing.T) {
	a, b := pair(t)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	before := openFDs(t)
	for _, part := range [][]byte{Encode(&Header{Request: SetFeatures, Flags: 1, Size: 8}), make([]byte, 8)} {
		if err := a.SendRaw(part, []int{int(null.Fd())}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := b.Receive()
	if err != nil || len(m.FDs) != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	m.Close()
	if now := openFDs(t); now != before {
		t.Errorf("%d descriptors are open, were %d", now, before)
	}
}

// TestSendStalls: a peer that does not read holds up a sender for a while only.
func TestSendStalls(t *testing.T) {
	a, _ := pair(t)
	var err error
	for range 100000 {
		if err = a.Send(&Message{Request: GetFeatures, Flags: 1, Payload: make([]byte, 1000)}); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestCloseEndsReceive: also one that waits for the first byte.
func TestCloseEndsReceive(t *testing.T) {
	_, b := pair(t)
	go func() {
		time.Sleep(10 * time.Millisecond)
		b.Close()
	}()
	if _, err := b.Receive(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
