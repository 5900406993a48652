package datagram

import "github.com/vhost-net-go/vhost-net-go/virtqueue/iov"

// Message says what was received into one slot of OpenMany: payload, and the size of
// each datagram in it but for the last (Bytes if it is only one).
type Message struct {
	Bytes, SegBytes int
}

// OpenMany reserves room for up to most datagrams, at most MaxMany, of about
// expectBytes each, and returns for how many: slot i is to be received into Slot(i).
// 0 means what false means of Open. It is followed by FinishMany or Cancel.
func (w *Writer) OpenMany(v6 bool, expectBytes, most int) (n int) {
	if w.held {
		return 0
	}
	want := min(max(expectBytes, 1), w.mostBytes(v6))
	w.reset()
	for n < min(most, MaxMany) && w.reserve(n, v6, want, 1) {
		if w.slots[n].room < want && n > 0 {
			break // its buffers are given back with FinishMany
		}
		n++
	}
	return n
}

// Slot returns where message i of OpenMany goes; it holds whatever one call can
// receive. It is valid until FinishMany or Cancel.
func (w *Writer) Slot(i int) []iov.Vec {
	at := w.slots[i].vec
	vs := w.vecs[at:]
	for n, left := 0, w.slots[i].room; ; n++ {
		if left == 0 {
			return vs[:n+1] // the last one is private
		}
		left -= int(vs[n].Len)
	}
}

// FinishMany makes the messages received into the first len(ms) slots into frames,
// in their order, and gives back what was reserved for others. All have the headers
// of p.
func (w *Writer) FinishMany(p *Packet, ms []Message) {
	i := 0
	for ; i < len(ms); i++ {
		m := &ms[i]
		if !w.direct(p, &w.slots[i], m.Bytes, m.SegBytes) || m.Bytes > m.SegBytes {
			break
		}
		var hdr [maxHeaders]byte
		vs := w.Slot(i)
		v, n := w.putHeaders(hdr[:], p, m.Bytes, m.SegBytes, vs[:len(vs)-1])
		if !w.queue.EndOne(m.Bytes, v, hdr[:n]) {
			break
		}
		w.count(m.Bytes, m.SegBytes)
	}
	// One that does not fit its frame makes all behind it lose theirs.
	for ; i < len(ms); i++ {
		w.keep(&w.slots[i], w.Slot(i), ms[i].Bytes, ms[i].SegBytes)
	}
	w.queue.Cancel()
	if w.njobs > 0 {
		w.writeOrHold(p)
	}
}
