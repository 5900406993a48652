package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Usage is what a process holds at one moment.
type Usage struct {
	RSSKiB, PeakKiB, Threads, Files int
	// CPUTicks are hundredths of a second.
	CPUTicks int
}

// ReadUsage reads a process's usage from /proc.
func ReadUsage(pid int) (Usage, error) {
	var u Usage
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.RSSKiB, u.PeakKiB, u.Threads = statusField(status, "VmRSS"), statusField(status, "VmHWM"), statusField(status, "Threads")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	u.Files = len(files)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	// Fields 14 and 15 of proc(5); the name in field 2 may hold spaces.
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(fields) > 12 {
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		u.CPUTicks = user + system
	}
	return u, nil
}

func statusField(status []byte, name string) int {
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

func (u Usage) String() string {
	return fmt.Sprintf("RSS %d KiB (peak %d), %d threads, %d descriptors, %d ms CPU", u.RSSKiB, u.PeakKiB, u.Threads, u.Files, u.CPUTicks*10)
}
