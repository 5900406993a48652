package gvguest_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
)

// stream is an endless sequence of bytes that differs from every other and from
// itself at any other offset.
func stream(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// send writes the first n bytes of a stream, in pieces of all sizes.
func send(w io.Writer, seed uint64, n int) error {
	src, rng := stream(seed), rand.New(rand.NewPCG(seed, 1))
	buf := make([]byte, 128<<10)
	for sent := 0; sent < n; {
		m := min(1+rng.IntN(1<<rng.IntN(18)), n-sent)
		_, _ = src.Read(buf[:m])
		if k, err := w.Write(buf[:m]); err != nil {
			return fmt.Errorf("send at byte %d: %w", sent+k, err)
		}
		sent += m
	}
	return nil
}

// expect reads up to the end and checks that it was the first n bytes of a
// stream.
func expect(r io.Reader, seed uint64, n int) error { return expectFrom(r, stream(seed), n) }

func expectFrom(r io.Reader, src *rand.ChaCha8, n int) error {
	got, want := make([]byte, 128<<10), make([]byte, 128<<10)
	at := 0
	for {
		m, err := r.Read(got)
		_, _ = src.Read(want[:m])
		if !bytes.Equal(got[:m], want[:m]) {
			for i := range m {
				if got[i] != want[i] {
					return fmt.Errorf("byte %d is wrong", at+i)
				}
			}
		}
		at += m
		switch {
		case err == io.EOF && at == n:
			return nil
		case err == io.EOF:
			return fmt.Errorf("ended after %d bytes of %d", at, n)
		case err != nil:
			return fmt.Errorf("receive at byte %d of %d: %w", at, n, err)
		case at > n:
			return fmt.Errorf("more than %d bytes", n)
		}
	}
}

// halfCloser is a TCP connection of either side.
type halfCloser interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// exchange sends up bytes, ends its direction, and expects down bytes, at the
// same time. ids of the two directions differ, ours first.
func exchange(c halfCloser, upSeed uint64, up int, downSeed uint64, down int) error {
	sent := make(chan error, 1)
	go func() {
		err := send(c, upSeed, up)
		if err == nil {
			err = c.CloseWrite()
		}
		sent <- err
	}()
	err := expect(c, downSeed, down)
	if serr := <-sent; serr != nil && err == nil {
		err = serr
	}
	return err
}
