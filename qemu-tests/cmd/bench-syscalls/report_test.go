package main

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	good := []counts{{"sendmsg": 1, "epoll_pwait": 1}, {"recvmsg": 4}, {"socket": 23.96}}
	bad := []counts{{"sendmsg": 1, "epoll_pwait": 1.1}, {"recvmsg": 4}, {"socket": 23.96}}
	o := options{flows: 10, idle: 10 * time.Second}
	for _, tt := range []struct {
		name   string
		calls  []counts
		idle   idle
		missed bool
	}{
		{"all kept", good, idle{wakesPerSecond: 5}, false},
		{"a limit missed", bad, idle{}, true},
		{"too many wake-ups", good, idle{wakesPerSecond: 5.1}, true},
		{"not idle", good, idle{cpu: 200 * time.Millisecond}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			results := []result{{program: "ours", calls: tt.calls, idle: tt.idle}, {program: "passt", calls: bad}}
			if missed := report(&b, results, o); missed != tt.missed {
				t.Errorf("missed = %v\n%s", missed, b.String())
			}
			for _, line := range []string{"\nmessage_in_acked 4.0", "\nconnect_request_response_close 24.0", "\nidle "} {
				if !strings.Contains(b.String(), line) {
					t.Errorf("no line %q in\n%s", line, b.String())
				}
			}
		})
	}
}
