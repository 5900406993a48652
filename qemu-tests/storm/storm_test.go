package storm

import (
	"strings"
	"testing"
)

const snmpText = `Ip: Forwarding DefaultTTL
Ip: 2 64
Tcp: RtoAlgorithm OutSegs OutRsts InCsumErrors
Tcp: 1 1000 42 0
`

func TestSNMP(t *testing.T) {
	for _, tt := range []struct {
		proto, name string
		want        int
	}{{"Tcp", "OutRsts", 42}, {"Tcp", "InCsumErrors", 0}, {"Ip", "DefaultTTL", 64}} {
		if got, err := snmp(snmpText, tt.proto, tt.name); err != nil || got != tt.want {
			t.Errorf("%s %s: %d, %v", tt.proto, tt.name, got, err)
		}
	}
	for _, name := range []string{"InRsts", ""} {
		if _, err := snmp(snmpText, "Tcp", name); err == nil {
			t.Errorf("%q is found", name)
		}
	}
	if _, err := snmp("", "Tcp", "OutRsts"); err == nil {
		t.Error("found in nothing")
	}
}

func TestCheck(t *testing.T) {
	good := Result{Config: Config{Cycles: 10}, Opened: 10, Ended: 10, FilesBefore: 5, FilesAfter: 5}
	tests := []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"good", func(*Result) {}, ""},
		{"one less", func(r *Result) { r.Ended-- }, "not all"},
		{"one reset", func(r *Result) { r.Resets++ }, "reset"},
		{"one reset that only a kernel saw", func(r *Result) { r.HostResets++ }, "reset"},
		{"late acknowledgements of what was sent twice", func(r *Result) { r.Late, r.Resent = 2, 3 }, ""},
		{"late acknowledgements of nothing", func(r *Result) { r.Late, r.Resent = 2, 1 }, "reset"},
		{"a segment of no connection", func(r *Result) { r.Unknown, r.Resent = 1, 3 }, "reset"},
		{"a descriptor", func(r *Result) { r.FilesAfter++ }, "descriptors"},
		{"fewer descriptors", func(r *Result) { r.FilesAfter-- }, ""},
	}
	for _, tt := range tests {
		r := good
		tt.change(&r)
		err := r.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
