package soak

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// Sample is what the backend held at a moment since the start.
type Sample struct {
	At    time.Duration
	Usage lab.Usage
}

// What may grow between the first and the last quarter of a soak. Go returns memory late, what is in flight differs, and
// the flows of datagrams and pings end by time only.
const (
	moreRSSKiB  = 16 << 10
	moreThreads = 3
	moreFiles   = 32
)

// warmUp is how many samples come before anything is as it will be.
const warmUp = 2

// Flat compares the first quarter of samples with the last one. Too few samples say nothing.
func Flat(samples []Sample) error {
	samples = samples[min(warmUp, len(samples)):]
	n := len(samples) / 4
	if n == 0 {
		return nil
	}
	first, last := samples[:n], samples[len(samples)-n:]
	var errs []error
	for _, m := range []struct {
		name string
		of   func(lab.Usage) int
		more int
	}{
		{"KiB of memory", func(u lab.Usage) int { return u.RSSKiB }, moreRSSKiB},
		{"threads", func(u lab.Usage) int { return u.Threads }, moreThreads},
		{"descriptors", func(u lab.Usage) int { return u.Files }, moreFiles},
	} {
		if a, b := median(first, m.of), median(last, m.of); b > a+m.more {
			errs = append(errs, fmt.Errorf("the backend grows: %d %s in the first quarter, %d in the last", a, m.name, b))
		}
	}
	return errors.Join(errs...)
}

func median(samples []Sample, of func(lab.Usage) int) int {
	var v []int
	for _, s := range samples {
		v = append(v, of(s.Usage))
	}
	slices.Sort(v)
	return v[len(v)/2]
}
