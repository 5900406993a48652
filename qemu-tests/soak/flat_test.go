package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

func TestFlat(t *testing.T) {
	tests := []struct {
		name string
		n    int
		at   func(i int) lab.Usage
		want string
	}{
		{"nothing", 0, nil, ""},
		{"too few to say", 4, func(i int) lab.Usage { return lab.Usage{Files: 1000 * i} }, ""},
		{"flat", 100, func(i int) lab.Usage { return lab.Usage{RSSKiB: 30_000 + i%7*1000, Threads: 9 + i%2, Files: 60 + i%9} }, ""},
		{"the start is no growth", 100, func(i int) lab.Usage { return lab.Usage{RSSKiB: 50_000 * min(i, 1)} }, ""},
		{"one peak is no growth", 100, func(i int) lab.Usage { return lab.Usage{RSSKiB: 90_000 * (i / 99)} }, ""},
		{"memory", 100, func(i int) lab.Usage { return lab.Usage{RSSKiB: 30_000 + i*400} }, "memory"},
		{"threads", 100, func(i int) lab.Usage { return lab.Usage{Threads: i / 10} }, "threads"},
		{"descriptors", 100, func(i int) lab.Usage { return lab.Usage{Files: i} }, "descriptors"},
	}
	for _, tt := range tests {
		var samples []Sample
		for i := range tt.n {
			samples = append(samples, Sample{time.Duration(i) * time.Second, tt.at(i)})
		}
		err := Flat(samples)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
