package wire

import (
	"fmt"

	"github.com/u-root/u-root/pkg/uio"
	"golang.org/x/sys/unix"
)

// HeaderSize is the size of a message's header in bytes.
const HeaderSize = 12

// MaxPayload is the largest payload that is read, in bytes. The largest that a
// known frontend sends is a memory table or a config space, both under 1 KiB.
const MaxPayload = 4096

// MaxFDs is the largest number of file descriptors taken beside one message;
// the specification needs 8.
const MaxFDs = 32

// Flags in a message's header.
const (
	FlagVersion     uint32 = 0x1 // bits 0 and 1 hold the version, which is 1
	flagVersionMask uint32 = 0x3
	FlagReply       uint32 = 0x4
	FlagNeedReply   uint32 = 0x8
)

// Header is what precedes a payload.
type Header struct {
	Request Request
	Flags   uint32
	Size    uint32 // of the payload, in bytes
}

// Marshal appends h to l.
func (h *Header) Marshal(l *uio.Lexer) {
	l.Write32(uint32(h.Request))
	l.Write32(h.Flags)
	l.Write32(h.Size)
}

// Unmarshal reads h from l.
func (h *Header) Unmarshal(l *uio.Lexer) error {
	h.Request, h.Flags, h.Size = Request(l.Read32()), l.Read32(), l.Read32()
	return l.Error()
}

// check refuses a header whose payload must not be read.
func (h *Header) check() error {
	if v := h.Flags & flagVersionMask; v != FlagVersion {
		return fmt.Errorf("%v has protocol version %d, want %d", h.Request, v, FlagVersion)
	}
	if h.Size > MaxPayload {
		return fmt.Errorf("%v announces a payload of %d bytes, the limit is %d", h.Request, h.Size, MaxPayload)
	}
	return nil
}

// Message is one message with the file descriptors that came, or go, with it.
// A received message owns its descriptors: TakeFD hands one over, Close closes
// those that nobody took.
type Message struct {
	Request Request
	Flags   uint32
	Payload []byte
	FDs     []int
}

// NeedReply reports whether the sender waits for an acknowledgement.
func (m *Message) NeedReply() bool { return m.Flags&FlagNeedReply != 0 }

// TakeFD hands over the message's first descriptor, or -1 when there is none.
func (m *Message) TakeFD() int {
	if len(m.FDs) == 0 {
		return -1
	}
	fd := m.FDs[0]
	m.FDs = m.FDs[1:]
	return fd
}

// Close closes the descriptors that were not taken.
func (m *Message) Close() {
	for _, fd := range m.FDs {
		unix.Close(fd)
	}
	m.FDs = nil
}
