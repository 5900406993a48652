package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseLine(t *testing.T) {
	for _, tt := range []struct {
		line, name string
		ok         bool
	}{
		{`13301 1796080885.608691 socket(AF_INET, SOCK_STREAM, IPPROTO_TCP) = 15`, "socket", true},
		{`13302 1796080885.601810 epoll_pwait(6,  <unfinished ...>`, "epoll_pwait", true},
		{`7     1796080885.601810 getpid()        = 13295`, "getpid", true},
		{`13302 1796080885.601969 <... epoll_pwait resumed>[], 128, 0, NULL, 0) = 0`, "", false},
		{`13302 1796080885.601969 +++ exited with 0 +++`, "", false},
		{`13302 1796080885.601969 --- SIGURG {si_signo=SIGURG} ---`, "", false},
		{`strace: Process 13302 attached`, "", false},
		{``, "", false},
	} {
		at, name, ok := parseLine(tt.line)
		if name != tt.name || ok != tt.ok {
			t.Errorf("parseLine(%q) = %q, %v; want %q, %v", tt.line, name, ok, tt.name, tt.ok)
		}
		if ok && at.Unix() != 1796080885 {
			t.Errorf("parseLine(%q) says %v", tt.line, at)
		}
	}
	if at, _, _ := parseLine(`1 5.000250 read(3, ""..., 8) = 8`); at != time.Unix(5, 250_000) {
		t.Errorf("time %v", at)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(`13302 1796080885.601810 epoll_pwait(6,  <unfinished ...>`)
	f.Add(`1 -5.-1 x(`)
	f.Fuzz(func(t *testing.T, line string) {
		if _, name, ok := parseLine(line); ok != (name != "") {
			t.Errorf("parseLine(%q) = %q, %v", line, name, ok)
		}
	})
}

// Calls belong to the span in which they began.
func TestCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace")
	trace := `1 10.000000 read(3, ""..., 8) = 8
1 10.500000 read(3,  <unfinished ...>
2 10.900000 write(4, ""..., 8) = 8
1 11.000000 <... read resumed>""..., 8) = 8
1 11.000000 close(3) = 0
1 12.000000 close(3) = 0
`
	if err := os.WriteFile(path, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	got, err := count(path, []span{{at(10), at(11)}, {at(11), at(12)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []counts{{"read": 2, "write": 1}, {"close": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := got[0].total(); n != 3 {
		t.Errorf("total %v, want 3", n)
	}
	if s := breakdown(got[0]); s != "read 2.00, write 1.00" {
		t.Errorf("breakdown %q", s)
	}
}
