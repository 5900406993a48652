// Command soak keeps random traffic going through the backend for hours: TCP streams, datagrams, pings, in both directions, every
// byte checked. It fails if anything is wrong, stalls for 5 s, or if the backend grows.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/soak"
)

func main() {
	sandbox.Main() // before flags: this program may be run again without them
	hours := flag.Float64("hours", 1, "`N` hours to run")
	c := soak.Config{Logf: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	flag.IntVar(&c.Streams, "streams", 24, "`N` streams at a time, in each direction")
	flag.DurationVar(&c.Every, "every", 10*time.Second, "`TIME` between two samples of the backend")
	flag.BoolVar(&c.QEMU, "qemu", false, "a QEMU guest in place of User Mode Linux")
	flag.Parse()
	c.Duration = time.Duration(*hours * float64(time.Hour))
	if c.Duration < time.Second || c.Streams < 1 || c.Every <= 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx := context.Background()
	h, err := harness.Enter(ctx, c.Logf)
	if err == nil {
		err = run(ctx, h, c)
		err = errors.Join(err, h.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, h *harness.Harness, c soak.Config) error {
	if h.Unable != nil {
		return h.Unable
	}
	r, err := soak.Run(ctx, h, c)
	fmt.Printf("hosts served: %s\nhosts sent:   %s\nguest sent:   %s\nguest's TCP:  %s\nbackend before: %v\nbackend after:  %v\n",
		r.Served, r.Sent, r.Guest, r.Losses, r.Before, r.Last)
	return err
}
