package qemutests

import (
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/soak"
)

// TestSoak is a minute of random traffic of all kinds; make soak does it for hours.
func TestSoak(t *testing.T) {
	ctx, _ := newLab(t, 3*time.Minute) // for the right to boot guests, and the summary
	r, err := soak.Run(ctx, machine, soak.Config{
		Duration: time.Minute, Streams: 16, Every: 2 * time.Second, Logf: t.Logf,
	})
	note(t, "hosts served %s", r.Served)
	note(t, "hosts sent %s", r.Sent)
	note(t, "guest: %s", r.Guest)
	note(t, "guest's TCP: %s", r.Losses)
	note(t, "backend before: %v", r.Before)
	note(t, "backend after:  %v", r.Last)
	if err != nil {
		t.Error(err)
	}
}
