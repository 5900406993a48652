package main

import "testing"

func TestParsePerf(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
		ok   bool
	}{
		{"1234,,raw_syscalls:sys_enter,1000,100.00,,\n", 1234, true},
		{"# started on Mon\n\n7,,raw_syscalls:sys_enter,1,100.00,,\n", 7, true},
		{"<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n", 0, false},
		{"<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n", 0, false},
		{"No permission to enable the event.\n", 0, false},
		{"", 0, false},
	} {
		if n, err := parsePerf(c.text); n != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %v, %v", c.text, n, err)
		}
	}
}
