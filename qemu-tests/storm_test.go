package qemutests

import (
	"fmt"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/storm"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// TestStorm connects and closes over and over from few ports, with a synthetic guest; make storm does it far longer.
func TestStorm(t *testing.T) {
	for _, c := range []storm.Config{{Cycles: 5000, Parallel: 64}, {Cycles: 5000, Parallel: 64, Inbound: true}} {
		t.Run(c.String(), func(t *testing.T) {
			ctx, _ := newLab(t, time.Minute) // for the right to make hosts, and the summary
			if !machine.Backend.Client {
				need(t, fmt.Errorf("a storm is for vhost-net-go, not %s", machine.Backend.Name))
			}
			s, err := stage.New(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			r, err := storm.Run(ctx, s, stage.Ours(machine.Backend.Path), c)
			if err != nil {
				t.Fatal(err)
			}
			note(t, "%v", r)
		})
	}
}
