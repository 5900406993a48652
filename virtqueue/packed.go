package virtqueue

import "github.com/vhost-net-go/vhost-net-go/virtqueue/iov"

// packedRing is the device side of a packed ring (virtio 1.2, 2.8): one ring of
// descriptors that the driver makes available and the device overwrites as used,
// each side once around after the other. In it, in this order:
//
//	used         up to here returned and published; here the next used
//	             descriptor goes, wherever its chain was
//	next         up to here taken
//	next+ahead   up to here known to be available
//
// The slots between used and next are those in use. The driver owns the others,
// so what it makes available must fit into them.
//
// Used descriptors are kept in staged until they are published: unlike elements
// of a used ring they would overwrite descriptors, and a successor could not go
// on from there if this process was killed.
type packedRing struct {
	core
	words packedWords
	desc  []byte

	used, next place
	inUse      uint32 // slots between the two
	ahead      struct{ chains, slots uint32 }

	seq uint16 // position in turns of the next chain to be taken
	// replay is how many chains from seq on were taken before and given back.
	replay uint16
	// out has an entry per buffer ID.
	out []packedChain

	staged      []usedChain
	open        bool   // the last of staged stands for a batch that goes on
	stagedSlots uint32 // that they cover

	kicks   uint16 // event flags of the device, as in memory
	unarmed bool   // kicks is a guess: a predecessor may have left anything
}

// packedChain is a chain that the device holds.
type packedChain struct {
	limit uint64 // 0: none, else 1 + the bytes that may be written
	slots uint32
	seq   uint16
}

func newPackedRing(c *Config) *packedRing {
	at, _ := resumePlace(c.NextAvail, c.Size)
	r := &packedRing{
		core: newCore(c), desc: c.Desc,
		used: at, next: at,
		out:     make([]packedChain, c.Size),
		staged:  make([]usedChain, 0, c.Size),
		unarmed: true,
	}
	r.turns = newTurns(c.Size, 0)
	r.words.init(c.Desc, c.Avail, c.Used)
	return r
}

func (r *packedRing) take(dst []iov.Vec) ([]iov.Vec, uint32, error) {
	dropped := uint32(0) // descriptors of dropped chains
	for {
		if r.ahead.chains == 0 {
			if err := r.refresh(); err != nil {
				return dst, 0, err
			}
		}
		t := r.turns.at(r.seq)
		if r.replay > 0 && t.state == turnDropped {
			r.again--
			r.advance(uint32(t.slots))
			r.passOn()
			continue
		}
		c := chain{vecs: dst}
		id, slots, f := r.walk(&c)
		switch {
		case f.cause != 0:
			return dst, 0, r.broken(f)
		case r.replay > 0 && (id != t.id || slots != uint32(t.slots) || c.wrong):
			return dst, 0, r.broken(fault{CauseDescInFlight, uint16(r.next.slot), uint64(id)})
		case uint32(id) >= r.size:
			return dst, 0, r.broken(fault{CauseHeadRange, uint16(r.next.slot), uint64(id)})
		case r.out[id].limit != 0:
			return dst, 0, r.broken(fault{CauseHeadInFlight, uint16(r.next.slot), uint64(id)})
		}
		*t = turn{id: id, slots: uint16(slots)}
		seq := r.seq
		r.advance(slots)
		if c.wrong {
			r.drop(t)
			if dropped += c.count; dropped > r.size {
				return dst, 0, r.broken(fault{CauseDirection, uint16(r.next.slot), uint64(dropped)})
			}
			continue
		}
		r.out[id] = packedChain{limit: r.limit(&c), seq: seq, slots: slots}
		if r.dirty != nil {
			r.dirty.take(id, c.vecs[len(dst):])
		}
		r.outstanding++
		r.counters.Chains++
		return c.vecs, uint32(id), nil
	}
}

// refresh looks whether there is a chain at next.
func (r *packedRing) refresh() error {
	switch {
	case r.err != nil:
		return r.err
	case !r.available(r.next):
		return ErrEmpty
	case r.inUse == r.size:
		return r.broken(fault{CauseDescInFlight, uint16(r.next.slot), uint64(r.inUse)})
	}
	return nil
}

// available reports whether the driver has made the descriptor at p available in
// this lap (virtio 1.2, 2.8.1).
func (r *packedRing) available(p place) bool {
	return r.words.flags(p.slot)&(descAvail|descUsed) == p.lap
}

// advance moves next over the chain there.
func (r *packedRing) advance(slots uint32) {
	r.next = r.next.forward(slots, r.size)
	r.inUse += slots
	r.seq++
	if r.replay > 0 {
		r.replay--
	}
	if r.ahead.chains > 0 {
		r.ahead.chains--
		// The driver may have changed the length of the chain since.
		r.ahead.slots -= min(slots, r.ahead.slots)
	}
	if r.ahead.chains == 0 {
		r.ahead.slots = 0
	}
}

// broken notes the first rule that the driver broke and sees to it that nothing
// is taken any more: with nothing ahead, every way leads to refresh.
func (r *packedRing) broken(f fault) error {
	r.err = &BrokenError{Cause: f.cause, Avail: r.next.code(), Desc: f.desc, Value: f.value}
	r.ahead.chains, r.ahead.slots, r.replay = 0, 0, 0
	return r.err
}

func (r *packedRing) untake(n int) {
	r.checkUntake(n)
	for ; n > 0; n-- {
		t := r.retreat()
		for t.state == turnDropped {
			r.again++
			t = r.retreat()
		}
		if r.out[t.id].limit == 0 {
			panic(misusedUntake)
		}
		if r.dirty != nil {
			r.dirty.untake(t.id)
		}
		r.out[t.id].limit = 0
		r.outstanding--
		r.counters.Chains--
	}
	if r.err != nil {
		r.ahead.chains, r.ahead.slots, r.replay = 0, 0, 0
	}
}

// retreat moves next back over the chain before it.
func (r *packedRing) retreat() *turn {
	r.seq--
	t := r.turns.at(r.seq)
	slots := uint32(t.slots)
	r.next = r.next.back(slots, r.size)
	r.inUse -= slots
	r.replay++
	r.ahead.chains++
	r.ahead.slots += slots
	return t
}

func (r *packedRing) giveBack(token, written uint32) {
	// A chain that is not out has 0 here, which no length is below.
	if token >= r.size || uint64(written) >= r.out[token].limit {
		panic(misusedReturn)
	}
	if r.dirty != nil {
		r.dirty.giveBack(uint16(token), uint64(written))
	}
	h := &r.out[token]
	h.limit = 0
	r.outstanding--
	if r.inOrder {
		t := r.turns.at(h.seq)
		t.state, t.written = turnReturned, written
		r.passOn()
		return
	}
	r.stage(usedChain{written: written, slots: h.slots, id: uint16(token)}, false)
}

// drop returns a chain of the wrong direction unused, sooner or later.
func (r *packedRing) drop(t *turn) {
	t.state = turnDropped
	r.counters.Dropped++
	if r.inOrder {
		r.passOn()
		return
	}
	r.waiting = append(r.waiting, usedChain{slots: uint32(t.slots), id: t.id})
}

// passOn stages the chains whose turn it is, where turns count.
func (r *packedRing) passOn() {
	if !r.inOrder {
		return
	}
	for t := r.turns.due(r.seq); t != nil; t = r.turns.due(r.seq) {
		r.stage(usedChain{written: t.written, slots: uint32(t.slots), id: t.id}, r.merge && t.state == turnReturned)
	}
}

// stage adds a used descriptor to those to be published; with merge it becomes
// the last one of the open batch (virtio 1.2, 2.8.8).
func (r *packedRing) stage(u usedChain, merge bool) {
	r.stagedSlots += u.slots
	if merge && r.open {
		last := &r.staged[len(r.staged)-1]
		last.id = u.id
		last.slots += u.slots
		return
	}
	r.staged = append(r.staged, u)
	r.open = merge
}

// state is that of a device that has returned all chains that it is not going to
// take again. What is held begins at the first slot in use when chains were
// returned in order.
func (r *packedRing) state() uint32 { return r.used.forward(r.stagedSlots, r.size).base() }
