// Package flowtable finds a flow by its addresses and ports.
//
// A [Table] maps a [Key] to the index of a flow in its owner's slab. It holds
// eight bytes a slot and no keys: those are in the flows, where a hit leads
// anyway. The hash is keyed with a secret of the table, so that a guest cannot
// choose ports that collide. Look-ups, insertions and deletions cost O(1), also
// while the table grows or shrinks, because it moves its content a few slots
// with each change and never all at once.
package flowtable

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Key tells flows apart. Which end is local is the owner's choice, as long as
// it is always the same one. Fields that a protocol lacks stay zero.
type Key struct {
	Local, Remote         header.Addr
	LocalPort, RemotePort uint16
	Proto                 uint8
}

// keyBytes is the number of bytes of Key that count.
const keyBytes = 16 + 16 + 2 + 2 + 1

// words returns the key as SipHash wants it: the last word ends with the length.
func (k *Key) words() (m0, m1, m2, m3, m4 uint64) {
	le := binary.LittleEndian
	return le.Uint64(k.Local[0:8]), le.Uint64(k.Local[8:16]),
		le.Uint64(k.Remote[0:8]), le.Uint64(k.Remote[8:16]),
		uint64(k.LocalPort) | uint64(k.RemotePort)<<16 | uint64(k.Proto)<<32 | keyBytes<<56
}

// Keys is the owner of the flows, who knows their keys.
type Keys interface {
	// HasKey reports whether k is the key under which index was inserted. The
	// key of a flow must not change while it is in the table. k is valid during
	// the call only.
	HasKey(index uint32, k *Key) bool
}

// slot is one place of the table. ref is the index plus 1; 0 is an empty slot.
type slot struct {
	hash uint32
	ref  uint32
}

const (
	minSlots = 64
	// moveSlots is how many slots of the old array are moved with each change
	// while the table is resized. An array is then moved before the next
	// resize can be due.
	moveSlots = 16
)

// Table is the map. It belongs to one goroutine.
type Table struct {
	keys   Keys
	secret sipKey
	wanted Key
	used   int
	slots  []slot // power of two; linear probing
	// While the table is being resized, old is the array it had before and
	// cursor the next slot of it to move. Whole probe clusters move at a time,
	// so that what is left is always a proper table of its own.
	old     []slot
	cursor  int
	pending int // slots of old still to visit
}

// New returns an empty table for the flows of keys.
func New(keys Keys) *Table {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: see crypto/rand
	return &Table{
		keys:   keys,
		secret: sipKey{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])},
		slots:  make([]slot, minSlots),
	}
}

// Len returns the number of flows in the table.
func (t *Table) Len() int { return t.used }

// Lookup returns the index of the flow with key k.
func (t *Table) Lookup(k *Key) (index uint32, ok bool) {
	h := uint32(t.secret.hash(k))
	if i := t.find(t.slots, h, k); i >= 0 {
		return t.slots[i].ref - 1, true
	}
	if t.old != nil {
		if i := t.find(t.old, h, k); i >= 0 {
			return t.old[i].ref - 1, true
		}
	}
	return 0, false
}

// Insert adds the flow index under k, which must not be in the table. index
// must be below 1<<32 - 1.
func (t *Table) Insert(k *Key, index uint32) {
	t.move()
	if t.used >= len(t.slots)/4*3 {
		t.resize(len(t.slots) * 2)
	}
	place(t.slots, slot{uint32(t.secret.hash(k)), index + 1})
	t.used++
}

// Delete takes the flow with key k out and reports whether it was there. It
// may ask the owner for the key of this and of other flows; afterwards this flow
// is not asked for again.
func (t *Table) Delete(k *Key) bool {
	t.move()
	h := uint32(t.secret.hash(k))
	in, i := t.slots, t.find(t.slots, h, k)
	if i < 0 && t.old != nil {
		in, i = t.old, t.find(t.old, h, k)
	}
	if i < 0 {
		return false
	}
	remove(in, i)
	t.used--
	if t.old == nil && len(t.slots) > minSlots && t.used < len(t.slots)/8 {
		t.resize(len(t.slots) / 2)
	}
	return true
}

// find returns where k is in slots, or -1.
func (t *Table) find(slots []slot, h uint32, k *Key) int {
	mask := len(slots) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		s := slots[i]
		if s.ref == 0 {
			return -1
		}
		if s.hash == h {
			t.wanted = *k // of the table, so that k need not be on the heap
			if t.keys.HasKey(s.ref-1, &t.wanted) {
				return i
			}
		}
	}
}

// place puts s into the first free slot from its home on.
func place(slots []slot, s slot) {
	mask := len(slots) - 1
	i := int(s.hash) & mask
	for slots[i].ref != 0 {
		i = (i + 1) & mask
	}
	slots[i] = s
}

// remove empties slot i and shifts back what probed past it (Knuth, volume 3,
// section 6.4, algorithm R), so that no tombstones pile up.
func remove(slots []slot, i int) {
	mask := len(slots) - 1
	for j := (i + 1) & mask; slots[j].ref != 0; j = (j + 1) & mask {
		home := int(slots[j].hash) & mask
		if (j-home)&mask >= (j-i)&mask {
			slots[i] = slots[j]
			i = j
		}
	}
	slots[i] = slot{}
}

// resize starts to move the table into an array of n slots.
func (t *Table) resize(n int) {
	for t.old != nil {
		t.move()
	}
	t.old, t.slots = t.slots, make([]slot, n)
	// Start behind an empty slot: at the border of a cluster.
	t.cursor = 0
	for t.old[t.cursor].ref != 0 {
		t.cursor++
	}
	t.pending = len(t.old)
}

// move carries the next slots of the old array over, up to the end of a
// cluster.
func (t *Table) move() {
	if t.old == nil {
		return
	}
	mask := len(t.old) - 1
	for n := 0; t.pending > 0; n++ {
		s := t.old[t.cursor]
		if s.ref == 0 && n >= moveSlots {
			return
		}
		if s.ref != 0 {
			place(t.slots, s)
			t.old[t.cursor] = slot{}
		}
		t.cursor = (t.cursor + 1) & mask
		t.pending--
	}
	t.old = nil
}
