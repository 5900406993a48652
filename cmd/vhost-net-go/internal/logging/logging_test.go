package logging

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

func TestLevels(t *testing.T) {
	tests := []struct {
		level options.Level
		want  string
	}{
		{options.Quiet, "warn"},
		{options.Normal, "screen info warn"},
		{options.Debug, "screen debug info warn"},
		{options.Trace, "screen trace debug info warn"},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		l, err := Open(&out, "", 0, tt.level)
		if err != nil {
			t.Fatal(err)
		}
		l.Screen("screen\n")
		l.Trace("trace")
		l.Debug("debug")
		l.Info("info")
		l.Warn("warn")
		var got []string
		for line := range strings.Lines(out.String()) {
			f := strings.Fields(line)
			got = append(got, f[len(f)-1])
		}
		if g := strings.Join(got, " "); g != tt.want {
			t.Errorf("level %d logged %q, want %q", tt.level, g, tt.want)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLogGoesToFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var stderr bytes.Buffer
	for range 2 { // the second start appends
		l, err := Open(&stderr, path, 1<<20, options.Normal)
		if err != nil {
			t.Fatal(err)
		}
		l.Info("hello")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("hello")) != 2 || stderr.Len() != 0 {
		t.Fatalf("file %q, error %v, stderr %q", text, err, &stderr)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "no", "log"), "/dev/null"} {
		if l, err := Open(nil, path, 1<<20, options.Normal); err == nil {
			t.Errorf("%s: opened %v", path, l)
		}
	}
}

func TestFileKeepsNewestLines(t *testing.T) {
	const limit = 1000
	path := filepath.Join(t.TempDir(), "log")
	f, err := OpenFile(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > limit {
			t.Fatalf("after line %d: %d bytes, error %v", i, info.Size(), err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for k, line := range lines {
		if want := fmt.Sprintf("line %d", 500-len(lines)+k); line != want {
			t.Fatalf("line %d of the file is %q, want %q", k, line, want)
		}
	}
	if len(text) < limit/2 {
		t.Errorf("only %d of %d bytes were kept", len(text), limit)
	}
}

func TestFileCutsWhatWasThereAndWhatIsTooLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, bytes.Repeat([]byte("old\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 150) + "end\n"
	if n, err := f.Write([]byte(long)); n != len(long) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || len(text) != 100 || !strings.HasSuffix(string(text), "xend\n") {
		t.Fatalf("file %q, error %v", text, err)
	}
}

func TestLimitedCountsTheSuppressed(t *testing.T) {
	var out bytes.Buffer
	l := Limit(hclog.New(&hclog.LoggerOptions{Output: &out}))
	l.limiter = rate.NewLimiter(rate.Every(time.Hour), 2)
	for range 10 {
		l.Warn("bad frame", "queue", 1)
	}
	if n := strings.Count(out.String(), "bad frame"); n != 2 {
		t.Fatalf("%d messages passed, want 2", n)
	}
	l.limiter = rate.NewLimiter(rate.Inf, 1)
	l.Error("ring broken")
	if !strings.Contains(out.String(), "ring broken: suppressed=8") {
		t.Errorf("the next message does not count the suppressed: %s", &out)
	}
	out.Reset()
	l.suppressed.Add(3)
	l.Debug("not at this level")
	l.Flush()
	l.Flush()
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "count=3") {
		t.Errorf("Flush wrote %q", got)
	}
}

func TestLimitedConcurrently(t *testing.T) {
	var out bytes.Buffer
	l := Limit(hclog.New(&hclog.LoggerOptions{Output: &out}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				l.Warn("x")
			}
		})
	}
	wg.Wait()
	if n := strings.Count(out.String(), "\n"); n < guestBurst || n > guestBurst+2 {
		t.Errorf("%d of 400 messages passed", n)
	}
}
