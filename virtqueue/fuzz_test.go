package virtqueue_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/virtqueue"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Operations of FuzzRing, each followed by one byte of argument.
const (
	opAvail     = iota // put head arg into the next slot, move the index; packed: make the next slot available
	opAvailIdx         // move the index by int8(arg); packed: make slot arg available, in any lap
	opTake             // take a chain
	opReturn           // return chain arg of those held
	opPublish          // publish
	opUntake           // give arg chains back
	opSuppress         // suppress kicks
	opArm              // arm kicks
	opPending          // look
	opRewrite          // write descriptor arg from the next four bytes
	opUsedEvent        // move the driver's event index
	ops
)

const (
	fuzzWritable = 1 << iota
	fuzzEventIdx
	fuzzIndirect
	fuzzOdd
	fuzzPacked
	fuzzInOrder
	fuzzLow   = highAddr - 16*page
	fuzzTable = 8 // entries of the indirect table
)

// FuzzRing reads its input as the shape of a ring (size, flags), its descriptors
// and those of an indirect table (four bytes each), and a list of operations of
// both sides.
func FuzzRing(f *testing.F) {
	plain := []byte{0, 3, 0, 0}   // 64 bytes
	linked := []byte{0, 3, 1, 1}  // and then descriptor 1
	table := []byte{5, 8, 4, 0}   // two entries of the indirect table
	written := []byte{1, 3, 2, 0} // writable
	life := []byte{
		opArm, 0, opAvail, 0, opSuppress, 0, opTake, 0, opUntake, 1, opTake, 0,
		opReturn, 0, opPublish, 0, opTake, 0, opArm, 0,
	}
	seed := func(size int, flags byte, ops []byte, descs ...[]byte) {
		in := []byte{byte(size - 1), flags}
		for i := range size + fuzzTable {
			d := plain
			if i < len(descs) {
				d = descs[i]
			}
			in = append(in, d...)
		}
		f.Add(append(in, ops...))
	}
	for _, format := range []byte{0, fuzzInOrder, fuzzPacked, fuzzPacked | fuzzInOrder} {
		seed(4, format, life)
		seed(4, format|fuzzEventIdx, life, linked)
		seed(4, format|fuzzWritable, life, written)
		seed(4, format|fuzzIndirect|fuzzOdd, life, table, plain, plain, plain, linked)
		seed(2, format, []byte{opAvail, 0, opAvail, 1, opTake, 0, opTake, 0, opReturn, 1, opReturn, 0, opPublish, 0}, written)
		seed(1, format, []byte{opAvailIdx, 2, opTake, 0, opAvail, 0, opTake, 0})
		seed(4, format|fuzzIndirect, life, table, plain, plain, plain, table)
		seed(4, format, append([]byte{opRewrite, 0, 0, 3, 1, 0}, life...))
	}
	seed(3, fuzzPacked, slices.Concat(life, life, life))
	seed(5, fuzzPacked|fuzzWritable, slices.Concat(life, []byte{opAvailIdx, 1}, life), written, plain, written)
	f.Fuzz(func(t *testing.T, in []byte) {
		if x := newFuzzRing(t, in); x != nil {
			x.run()
		}
	})
}

// held is a chain that the device holds or held.
type held struct {
	token    uint32
	bytes    uint32
	returned bool
}

// fuzzRing is a queue and a model of it.
type fuzzRing struct {
	t   *testing.T
	in  []byte
	drv *virtqtest.Driver
	q   *virtqueue.Queue
	cfg virtqueue.Config
	avail,
	first uint16
	// Places of driver and device in a packed ring, as in an event area.
	place, at uint16
	table     uint64

	takes    []held
	expect   []virtqtest.Used // returned, in order, since the last Publish
	elements uint64           // used elements published
	broken   error
	vecs     []iov.Vec
}

func newFuzzRing(t *testing.T, in []byte) *fuzzRing {
	if len(in) < 2 {
		return nil
	}
	flags := in[1]
	cfg := virtqtest.Config{
		Size: 1 + uint16(in[0]%32), EventIdx: flags&fuzzEventIdx != 0, Indirect: flags&fuzzIndirect != 0,
		Packed: flags&fuzzPacked != 0, InOrder: flags&fuzzInOrder != 0,
		OddAvail: flags&fuzzOdd != 0, FirstIndex: 0xfff8, IndirectEntries: fuzzTable,
	}
	if !cfg.Packed && cfg.Size&(cfg.Size-1) != 0 {
		return nil
	}
	x := &fuzzRing{t: t, in: in[2:], first: cfg.FirstIndex}
	mem, err := virtqtest.NewMemory( // as twoRegions, but smaller
		virtqtest.HeapRegion(fuzzLow, highAddr-fuzzLow), virtqtest.HeapRegion(highAddr, highSize))
	if err != nil {
		t.Fatal(err)
	}
	if x.drv, err = virtqtest.NewDriver(mem, cfg); err != nil {
		t.Fatal(err)
	}
	if x.table, err = mem.Alloc(16*fuzzTable, 16); err != nil {
		t.Fatal(err)
	}
	x.avail = x.first
	x.cfg = x.drv.QueueConfig(flags&fuzzWritable != 0)
	x.place, x.at = uint16(x.cfg.NextAvail), uint16(x.cfg.NextAvail)
	if x.q, err = virtqueue.New(x.cfg); err != nil {
		t.Fatal(err)
	}
	for i := range int(x.cfg.Size) + fuzzTable {
		x.desc(i)
	}
	return x
}

func (x *fuzzRing) byte() byte {
	if len(x.in) == 0 {
		return 0
	}
	b := x.in[0]
	x.in = x.in[1:]
	return b
}

// desc writes descriptor i of the ring, or of the indirect table behind it, from
// four bytes of input: enough to say all that matters.
func (x *fuzzRing) desc(i int) {
	addrs := []uint64{
		fuzzLow + 8*page, highAddr + 128, highAddr - 8, highAddr + highSize - 8, highAddr + highSize,
		x.table, x.table + 16, 0, math.MaxUint64 - 7, fuzzLow,
	}
	lens := []uint32{0, 1, 8, 64, 9, 16, 24, 128, 32, 4096, math.MaxUint32, 1 << 31, 16 * 33}
	d := virtqtest.Desc{Addr: addrs[int(x.byte())%len(addrs)], Len: lens[int(x.byte())%len(lens)]}
	flags := x.byte()
	d.Flags = uint16(flags & 7)
	d.Next = uint16(x.byte()) | uint16(flags&0x80)<<8
	if x.cfg.Packed {
		x.packedDesc(i, d)
		return
	}
	if i < int(x.cfg.Size) {
		x.drv.Ring().SetDesc(uint16(i), d)
		return
	}
	b := x.drv.Memory().Bytes(x.table+uint64(16*(i-int(x.cfg.Size))), 16)
	for k := range 8 {
		b[k] = byte(d.Addr >> (8 * k))
		b[8+k] = byte((uint64(d.Len) | uint64(d.Flags)<<32 | uint64(d.Next)<<48) >> (8 * k))
	}
}

func (x *fuzzRing) run() {
	ring := x.drv.Ring()
	for range 1000 {
		if len(x.in) == 0 {
			break
		}
		op, arg := x.byte()%ops, x.byte()
		switch op {
		case opAvail:
			if x.cfg.Packed {
				x.packedAvail()
				break
			}
			ring.SetAvailSlot(x.avail, uint16(arg))
			x.avail++
			ring.SetAvail(0, x.avail)
		case opAvailIdx:
			if x.cfg.Packed {
				x.packedMark(uint16(arg)%x.cfg.Size, arg&0x80 != 0)
				break
			}
			x.avail += uint16(int8(arg))
			ring.SetAvail(0, x.avail)
		case opTake:
			x.take()
		case opReturn:
			x.giveBack(int(arg))
		case opPublish:
			x.publish()
		case opUntake:
			x.untake(int(arg))
		case opSuppress:
			x.q.SuppressKicks()
		case opArm:
			before := x.q.Err()
			if more := x.q.ArmKicks(); more != (x.q.Pending() > 0 || before == nil && x.q.Err() != nil) {
				x.t.Fatalf("ArmKicks %v with %d pending, error %v", more, x.q.Pending(), x.q.Err())
			}
		case opPending:
			if n := x.q.Pending(); n < 0 || n > int(x.cfg.Size) {
				x.t.Fatalf("%d pending in a ring of %d", n, x.cfg.Size)
			}
		case opRewrite:
			x.desc(int(arg) % (int(x.cfg.Size) + fuzzTable))
		case opUsedEvent:
			if x.cfg.Packed {
				x.drv.Packed().SetDriverEvent(uint16(arg)&0x803f|uint16(arg&0x40)<<9, uint16(arg>>6))
				break
			}
			ring.SetUsedEvent(x.avail + uint16(arg))
		}
		x.check()
	}
	for x.holds() > 0 {
		x.giveBack(0)
	}
	x.publish()
	x.check()
}

func (x *fuzzRing) take() {
	vecs, token, err := x.q.Take(x.vecs[:0])
	x.vecs = vecs
	switch {
	case x.broken != nil && err != x.broken:
		x.t.Fatalf("broken ring gave %v", err)
	case errors.Is(err, virtqueue.ErrEmpty):
		return
	case errors.Is(err, virtqueue.ErrBroken):
		x.broken = err
		return
	case err != nil:
		x.t.Fatal(err)
	}
	if slices.ContainsFunc(x.takes, func(h held) bool { return h.token == token && !h.returned }) {
		x.t.Fatalf("chain %d taken twice", token)
	}
	sum := uint64(0)
	for _, v := range vecs {
		guestAddr(x.t, x.cfg.Mem, v)
		sum += v.Len
	}
	if len(vecs) == 0 || len(vecs) > 2*int(x.cfg.Size) || sum == 0 || sum > 1<<32 {
		x.t.Fatalf("chain of %d vectors, %d bytes", len(vecs), sum)
	}
	h := held{token: token}
	if x.cfg.Writable {
		h.bytes = uint32(min(sum, math.MaxUint32))
	}
	x.takes = append(x.takes, h)
}

func (x *fuzzRing) holds() (n int) {
	for _, h := range x.takes {
		if !h.returned {
			n++
		}
	}
	return n
}

func (x *fuzzRing) giveBack(k int) {
	n := x.holds()
	if n == 0 {
		return
	}
	k %= n
	for i := range x.takes {
		h := &x.takes[i]
		if h.returned {
			continue
		}
		if k == 0 {
			h.returned = true
			x.q.Return(h.token, h.bytes)
			x.expect = append(x.expect, virtqtest.Used{Head: uint16(h.token), Len: h.bytes})
			return
		}
		k--
	}
}

func (x *fuzzRing) untake(n int) {
	last := 0
	for last < len(x.takes) && !x.takes[len(x.takes)-1-last].returned {
		last++
	}
	n %= last + 1
	x.q.Untake(n)
	x.takes = x.takes[:len(x.takes)-n]
}

// publish checks that the used elements are those returned, each once and in
// order, with nothing but dropped chains in between.
func (x *fuzzRing) publish() {
	if x.cfg.Packed {
		x.packedPublish()
		return
	}
	if x.cfg.InOrder {
		x.q.Publish()
		return
	}
	ring := x.drv.Ring()
	_, old := ring.Used()
	if call := x.q.Publish(); call && len(x.expect) == 0 && x.q.Counters().Dropped == 0 {
		x.t.Fatal("call for nothing")
	}
	_, now := ring.Used()
	for pos := old; pos != now; pos++ {
		head, n := ring.UsedElem(pos)
		switch {
		case len(x.expect) > 0 && x.expect[0] == virtqtest.Used{Head: uint16(head), Len: n}:
			x.expect = x.expect[1:]
		case n != 0 || head >= uint32(x.cfg.Size):
			x.t.Fatalf("used element {%d %d} out of nowhere", head, n)
		}
		x.elements++
	}
	if len(x.expect) > 0 {
		x.t.Fatalf("%d returned chains are not in the used ring", len(x.expect))
	}
}

// check compares the accounts of the queue with those of the model.
func (x *fuzzRing) check() {
	c := x.q.Counters()
	if x.q.Outstanding() != x.holds() || c.Chains != uint64(len(x.takes)) {
		x.t.Fatalf("queue holds %d of %d chains, the model %d of %d",
			x.q.Outstanding(), c.Chains, x.holds(), len(x.takes))
	}
	if x.elements > c.Chains+c.Dropped {
		x.t.Fatalf("%d used elements for %d chains", x.elements, c.Chains+c.Dropped)
	}
	if r := x.drv.Ring(); r == nil || x.cfg.InOrder {
		if err := x.q.Err(); x.broken != nil && err != x.broken {
			x.t.Fatalf("broken for %v, then for %v", x.broken, err)
		}
		return
	}
	if _, idx := x.drv.Ring().Used(); idx != x.first+uint16(x.elements) {
		x.t.Fatalf("used index %d after %d elements", idx-x.first, x.elements)
	}
	if err := x.q.Err(); x.broken != nil && err != x.broken {
		x.t.Fatalf("broken for %v, then for %v", x.broken, err)
	}
}
