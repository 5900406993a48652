package vutest

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// Start makes the backend serve g, as when the guest's driver has finished its
// initialisation: features, memory, rings. want holds the virtio features that
// the driver would take; those not offered are left out, and the bit of the
// protocol itself is added. The format of g's rings must fit them. It returns the features acknowledged.
func (f *Frontend) Start(g *Guest, want uint64) (acked uint64, err error) {
	acked = f.Offered & (want | wire.FeatureProtocol)
	f.guest, f.acked = g, acked
	start := map[Style]func(*Guest, uint64) error{
		QEMU: f.startQEMU, UML: f.startUML, DPDK: f.startDPDK, CloudHypervisor: f.startCH,
	}[f.Style]
	if err := start(g, acked); err != nil {
		return acked, fmt.Errorf("vutest: start as %v: %w", f.Style, err)
	}
	return acked, nil
}

// run calls the functions in turn until one fails.
func run(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// each calls step for each queue.
func (g *Guest) each(step func(*Queue) error) func() error {
	return func() error {
		for _, q := range g.Queues {
			if err := step(q); err != nil {
				return err
			}
		}
		return nil
	}
}

// seq calls several steps for one queue.
func seq(steps ...func(*Queue) error) func(*Queue) error {
	return func(q *Queue) error {
		for _, step := range steps {
			if err := step(q); err != nil {
				return err
			}
		}
		return nil
	}
}

func (f *Frontend) startQEMU(g *Guest, acked uint64) error {
	if err := run(func() error { return f.announce(g) }, g.each(f.EnableQueue)); err != nil {
		return err
	}
	for first := 0; first < len(g.Queues); first += 2 {
		pair := &Guest{Memory: g.Memory, Queues: g.Queues[first:min(first+2, len(g.Queues))]}
		if err := run(
			func() error { return f.SetFeatures(acked) },
			func() error { return f.addStatus(statusFeaturesOK) },
			func() error { return f.share(g.Memory) },
			pair.each(seq(f.SetNum, f.SetBase, f.SetAddr, f.SetKick, f.SetCall)),
		); err != nil {
			return err
		}
	}
	return f.addStatus(statusAcknowledge | statusDriver | statusDriverOK)
}

// announce is what QEMU says about the rings when it connects: where errors go,
// and a call descriptor that nobody listens to, to be replaced at the start.
func (f *Frontend) announce(g *Guest) error {
	if f.announced {
		return nil
	}
	f.announced = true
	masked, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("create eventfd: %w", err)
	}
	defer unix.Close(masked)
	return g.each(seq(
		func(q *Queue) error { return f.setFD(wire.SetVringCall, q, masked) },
		f.SetErr,
	))()
}

func (f *Frontend) startUML(g *Guest, acked uint64) error {
	return run(
		func() error { return f.SetFeatures(acked) },
		func() error { return f.SetMemTable(g.Memory) },
		g.each(seq(f.SetCall, f.SetNum, f.SetBase, f.SetAddr)),
		g.each(seq(f.SetKick, f.EnableQueue)),
	)
}

func (f *Frontend) startDPDK(g *Guest, acked uint64) error {
	return run(
		g.each(f.SetCall),
		func() error { return f.SetFeatures(acked) },
		func() error { return f.addStatus(statusAcknowledge | statusDriver | statusFeaturesOK) },
		func() error { return f.SetMemTable(g.Memory) },
		g.each(seq(f.SetNum, f.SetBase, f.SetAddr, f.SetKick)),
		g.each(f.EnableQueue),
		func() error { return f.addStatus(statusDriverOK) },
	)
}

func (f *Frontend) startCH(g *Guest, acked uint64) error {
	return run(
		func() error { return f.SetFeatures(acked) },
		func() error { return f.SetMemTable(g.Memory) },
		g.each(f.SetNum),
		g.each(seq(f.SetAddr, f.SetBase, f.SetCall, f.SetKick)),
		g.each(f.EnableQueue),
	)
}

// Stop makes the backend let go of the rings of the last Start, in the way in
// which the frontend does it, and keeps the indices at which they go on.
func (f *Frontend) Stop() error {
	if f.guest == nil {
		return errors.New("vutest: stop before start")
	}
	g := f.guest
	var err error
	switch f.Style {
	case UML:
		err = run(g.each(f.DisableQueue), f.getFeatures)
	case QEMU:
		err = run(g.each(f.GetBase), func() error { return f.setStatus(0) })
	default:
		err = run(g.each(f.DisableQueue), g.each(f.GetBase))
	}
	if err != nil {
		return fmt.Errorf("vutest: stop as %v: %w", f.Style, err)
	}
	return nil
}

// addStatus sets bits of the device status, if that is negotiated.
func (f *Frontend) addStatus(bits uint64) error {
	if f.Protocol&wire.ProtocolStatus == 0 {
		return nil
	}
	now, err := f.GetU64(wire.GetStatus)
	if err != nil {
		return err
	}
	return f.setStatus(now | bits)
}

func (f *Frontend) setStatus(status uint64) error {
	if f.Protocol&wire.ProtocolStatus == 0 {
		return nil
	}
	v := wire.U64(status)
	return f.Do(wire.SetStatus, &v)
}
