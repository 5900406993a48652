package vhostuser

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// replyKind says what answer a request gets.
type replyKind uint8

const (
	// replyAck: a word, 0 for success, and only if NEED_REPLY is set.
	replyAck replyKind = iota
	// replyData: always a payload of its own, which stands for the
	// acknowledgement too. There is no way to answer a failure.
	replyData
	// replyWord: a word of its own, but a failure is answered as with replyAck.
	replyWord
)

// request is what must hold before a request is acted on, and what follows.
// Payload sizes are in bytes and include both ends of the range.
type request struct {
	minSize, maxSize int
	minFDs, maxFDs   int
	needs            uint64 // protocol feature that the frontend must have acknowledged
	reply            replyKind
	// act carries the request out. Unless reply is replyAck it returns the payload of
	// the reply. It takes descriptors that it keeps from m.
	act func(s *session, m *wire.Message) ([]byte, error)
}

// errRefused marks a request that is well formed but not carried out, and whose
// sender can live without: it is acknowledged as failed if asked for, and
// otherwise ignored.
var errRefused = errors.New("refused")

// requests is indexed by the request's identifier. Those without act (IOTLB, crypto, postcopy, inflight, GPU, shared objects, device state)
// belong to features that are not offered.
var requests = [wire.LastRequest + 1]request{
	wire.GetFeatures: {reply: replyData, act: (*session).getFeatures},
	wire.SetFeatures: word((*session).setFeatures),
	wire.SetOwner:    {act: (*session).setOwner},
	wire.ResetOwner:  {act: (*session).resetOwner},

	// The size is at least what the announced regions need, see wire.MemTable.
	wire.SetMemTable: {
		minSize: wire.MemTableHead + wire.RegionSize, maxSize: wire.MaxPayload,
		minFDs: 1, maxFDs: wire.MaxFDs, act: (*session).setMemTable,
	},
	wire.AddMemReg: {
		minSize: wire.SingleRegionSize, maxSize: wire.SingleRegionSize,
		minFDs: 1, maxFDs: 1, needs: wire.ProtocolConfigureMemSlots, act: (*session).addMemReg,
	},
	// Some frontends send the region's descriptor again; it is not needed.
	wire.RemMemReg: {
		minSize: wire.SingleRegionSize, maxSize: wire.SingleRegionSize,
		maxFDs: 1, needs: wire.ProtocolConfigureMemSlots, act: (*session).remMemReg,
	},
	wire.GetMaxMemSlots: {
		needs: wire.ProtocolConfigureMemSlots, reply: replyData,
		act: (*session).getMaxMemSlots,
	},

	// QEMU waits for the answer but does not look at it, and does not ask for an
	// acknowledgement: a failure ends the connection.
	wire.SetLogBase: {
		minSize: wire.LogSize, maxSize: wire.LogSize,
		minFDs: 1, maxFDs: 1, needs: wire.ProtocolLogShmFD, reply: replyWord,
		act: (*session).setLogBase,
	},
	// Some send a word that means nothing.
	wire.SetLogFD: {
		maxSize: wire.U64Size, minFDs: 1, maxFDs: 1, needs: wire.ProtocolLogShmFD,
		act: (*session).setLogFD,
	},

	wire.SetVringNum:    vringState((*session).setVringNum),
	wire.SetVringBase:   vringState((*session).setVringBase),
	wire.SetVringEnable: vringState((*session).setVringEnable),
	wire.SetVringAddr: {
		minSize: wire.VringAddrSize, maxSize: wire.VringAddrSize,
		act: (*session).setVringAddr,
	},
	wire.GetVringBase: {
		minSize: wire.VringStateSize, maxSize: wire.VringStateSize,
		reply: replyData, act: (*session).getVringBase,
	},
	wire.SetVringKick: vringFD((*session).setVringKick),
	wire.SetVringCall: vringFD((*session).setVringCall),
	wire.SetVringErr:  vringFD((*session).setVringErr),
	// In-band notifications are not offered; a stray one does no harm.
	wire.VringKick:      vringState((*session).refuse),
	wire.SetVringEndian: vringState((*session).refuse),

	wire.GetProtocolFeatures: {reply: replyData, act: (*session).getProtocolFeatures},
	wire.SetProtocolFeatures: word((*session).setProtocolFeatures),
	wire.GetQueueNum:         {needs: wire.ProtocolMQ, reply: replyData, act: (*session).getQueueNum},
	wire.SetBackendReqFD: {
		minFDs: 1, maxFDs: 1, needs: wire.ProtocolBackendReq,
		act: (*session).setBackendReqFD,
	},

	wire.SendRARP:  word((*session).sendRARP).needing(wire.ProtocolRARP),
	wire.NetSetMTU: word((*session).netSetMTU).needing(wire.ProtocolNetMTU),
	wire.GetConfig: {
		minSize: wire.ConfigHead, maxSize: wire.MaxPayload,
		needs: wire.ProtocolConfig, reply: replyData, act: (*session).getConfig,
	},
	// Nothing in a modern network device's space can be written.
	wire.SetConfig: {
		minSize: wire.ConfigHead, maxSize: wire.MaxPayload,
		needs: wire.ProtocolConfig, act: (*session).refuse,
	},

	wire.ResetDevice: {needs: wire.ProtocolResetDevice, act: (*session).resetDevice},
	wire.SetStatus:   word((*session).setStatus).needing(wire.ProtocolStatus),
	wire.GetStatus:   {needs: wire.ProtocolStatus, reply: replyData, act: (*session).getStatus},
}

type action = func(*session, *wire.Message) ([]byte, error)

// word is a request with one 64-bit word as payload.
func word(act action) request {
	return request{minSize: wire.U64Size, maxSize: wire.U64Size, reply: replyAck, act: act}
}

// vringState is a request that gives one number to one ring.
func vringState(act action) request {
	return request{minSize: wire.VringStateSize, maxSize: wire.VringStateSize, act: act}
}

// vringFD is a request that gives a ring a descriptor, or says that it has none.
func vringFD(act action) request {
	return request{minSize: wire.U64Size, maxSize: wire.U64Size, maxFDs: 1, act: act}
}

func (r request) needing(feature uint64) request {
	r.needs = feature
	return r
}

// unsupported stands for all requests that the table has no row for.
var unsupported = request{}

// lookup returns the table's row for a request.
func lookup(id wire.Request) *request {
	if id > wire.LastRequest || requests[id].act == nil {
		return &unsupported
	}
	return &requests[id]
}

// check tells whether m is what r asks for. acked holds the protocol features
// that the frontend acknowledged.
func (r *request) check(m *wire.Message, acked uint64) error {
	switch n := len(m.Payload); {
	case m.Flags&wire.FlagReply != 0:
		return errors.New("reply to a request that was never made")
	case r.act == nil:
		return errors.New("not supported")
	case n < r.minSize || n > r.maxSize:
		return fmt.Errorf("payload is %d bytes long, want %s", n, span(r.minSize, r.maxSize))
	case len(m.FDs) < r.minFDs || len(m.FDs) > r.maxFDs:
		return fmt.Errorf("%d file descriptors, want %s", len(m.FDs), span(r.minFDs, r.maxFDs))
	case r.needs&^acked != 0:
		return fmt.Errorf("protocol feature %#x was not negotiated", r.needs)
	}
	return nil
}

func span(lo, hi int) string {
	if lo == hi {
		return fmt.Sprint(lo)
	}
	return fmt.Sprintf("%d to %d", lo, hi)
}
