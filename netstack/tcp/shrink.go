package tcp

import "github.com/vhost-net-go/vhost-net-go/netstack/timerwheel"

const (
	// listRoom is how many flows the lists of a new handler have room for.
	listRoom = 1024
	// manyFlows is how many it takes that their memory is worth a collection.
	manyFlows = 8 * chunkFlows
)

// makeLists makes the lists that are needed in every turn.
func (h *Handler) makeLists() {
	for _, list := range []*[]uint32{&h.acks, &h.ready, &h.running, &h.parked, &h.waking} {
		*list = make([]uint32, 0, listRoom)
	}
	h.waiting, h.pending = nil, nil
}

// shrink lets go of the memory of flows when the last one has ended.
func (h *Handler) shrink() {
	many := len(h.flows.chunks)*chunkFlows >= manyFlows
	h.flows.shrink()
	if !many {
		h.ready, h.acks, h.parked = h.ready[:0], h.acks[:0], h.parked[:0]
		return
	}
	h.makeLists()
	h.wheel = timerwheel.New(h.cfg.Link.NowMs)
	if h.cfg.Shrunk != nil {
		h.cfg.Shrunk()
	}
}
