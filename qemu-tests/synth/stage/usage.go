package stage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used and holds at a moment.
type Usage struct {
	CPU       time.Duration // of all threads, those that ended included
	Switches  int           // voluntary context switches of the threads there are
	RSSBytes  int
	PeakBytes int // of RSS, since the start or the last ResetPeak
	Files     int
}

// Usage reads what the backend uses.
func (b *Backend) Usage() (Usage, error) { return ReadUsage(b.PID) }

// ResetPeak makes the peak of memory begin anew.
func (b *Backend) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", b.PID), []byte("5"), 0) // proc_pid_clear_refs(5)
}

// ReadUsage reads what a process uses.
func ReadUsage(pid int) (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(dir + "/status")
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.RSSBytes, u.PeakBytes = field(status, "VmRSS")<<10, field(status, "VmHWM")<<10
	files, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.Files = len(files)
	if u.CPU, err = cpu(dir); err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	tasks, err := filepath.Glob(dir + "/task/*/status")
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	for _, path := range tasks {
		status, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // ended meanwhile
		}
		if err != nil {
			return u, fmt.Errorf("read usage: %w", err)
		}
		u.Switches += field(status, "voluntary_ctxt_switches")
	}
	return u, nil
}

// cpu sums the run time of the threads, which the scheduler keeps in
// nanoseconds (proc_pid_schedstat, first field).
func cpu(dir string) (sum time.Duration, err error) {
	paths, err := filepath.Glob(dir + "/task/*/schedstat")
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

func field(status []byte, name string) int {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}
