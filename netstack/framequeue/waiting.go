package framequeue

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// waitingBytes bounds the frames that wait for buffers: about 700 TCP flags.
const waitingBytes = 64 << 10

// entryHead is, in front of each waiting frame: its length (2 bytes), then its
// vnet header.
const entryHead = 2 + header.VnetLen

// waitingFrames is a first-in-first-out store of small frames.
type waitingFrames struct {
	data  []byte // entries, back to back, from first on
	first int
	n     int
}

func newWaitingFrames() waitingFrames {
	return waitingFrames{data: make([]byte, 0, waitingBytes)}
}

func (w *waitingFrames) any() bool { return w.n > 0 }

// push appends a frame, or reports that there is no room for it.
func (w *waitingFrames) push(v header.Vnet, frame []byte) bool {
	need := entryHead + len(frame)
	if len(frame) > 0xffff || len(w.data)-w.first+need > waitingBytes {
		return false
	}
	if len(w.data)+need > waitingBytes {
		w.data = w.data[:copy(w.data, w.data[w.first:])]
		w.first = 0
	}
	var head [entryHead]byte
	head[0], head[1] = byte(len(frame)), byte(len(frame)>>8)
	v.Put(head[2:])
	w.data = append(append(w.data, head[:]...), frame...)
	w.n++
	return true
}

// front returns the oldest frame, valid until the next push or pop.
func (w *waitingFrames) front() (header.Vnet, []byte) {
	e := w.data[w.first:]
	n := int(e[0]) | int(e[1])<<8
	return header.ParseVnet(e[2:entryHead]), e[entryHead : entryHead+n]
}

func (w *waitingFrames) pop() {
	_, frame := w.front()
	w.first += entryHead + len(frame)
	if w.n--; w.n == 0 {
		w.reset()
	}
}

// reset drops all and returns how many that were.
func (w *waitingFrames) reset() int {
	n := w.n
	w.data, w.first, w.n = w.data[:0], 0, 0
	return n
}
