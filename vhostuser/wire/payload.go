package wire

import (
	"fmt"

	"github.com/u-root/u-root/pkg/uio"
)

// Payload sizes in bytes.
const (
	U64Size        = 8
	VringStateSize = 8
	VringAddrSize  = 40
	LogSize        = 16
	RegionSize     = 32
	// MemTableHead is the part of a memory table in front of its regions.
	MemTableHead     = 8
	SingleRegionSize = 8 + RegionSize
	// ConfigHead is the part of a config message in front of its data.
	ConfigHead = 12
)

// Payload is the content of a message. Decode and Encode use it.
type Payload interface {
	uio.Marshaler
	uio.Unmarshaler
}

// Encode returns the bytes of p in host byte order.
func Encode(p uio.Marshaler) []byte {
	l := uio.NewNativeEndianBuffer(nil)
	p.Marshal(l)
	return l.Data()
}

// Decode fills p from b and fails when b is shorter or longer than p's layout.
func Decode(b []byte, p uio.Unmarshaler) error {
	l := uio.NewNativeEndianBuffer(b)
	if err := p.Unmarshal(l); err != nil {
		return fmt.Errorf("decode payload: %w", err)
	}
	if err := l.FinError(); err != nil {
		return fmt.Errorf("decode payload of %d bytes: %w", len(b), err)
	}
	return nil
}

// U64 is the payload of one 64-bit word.
type U64 uint64

// Marshal appends u to l.
func (u *U64) Marshal(l *uio.Lexer) { l.Write64(uint64(*u)) }

// Unmarshal reads u from l.
func (u *U64) Unmarshal(l *uio.Lexer) error {
	*u = U64(l.Read64())
	return l.Error()
}

// VringNoFD is the bit in the payload of SET_VRING_KICK, CALL and ERR that says
// that no file descriptor comes with it; the bits below hold the ring's index.
const VringNoFD U64 = 1 << 8

// VringIndexMask covers the ring's index in the payload of SET_VRING_KICK, CALL
// and ERR.
const VringIndexMask U64 = VringNoFD - 1

// VringState is the payload of messages that give one number to one ring.
type VringState struct {
	Index uint32 // of the virtqueue
	Num   uint32 // ring size, available index, or 0/1 for SET_VRING_ENABLE
}

// Marshal appends s to l.
func (s *VringState) Marshal(l *uio.Lexer) {
	l.Write32(s.Index)
	l.Write32(s.Num)
}

// Unmarshal reads s from l.
func (s *VringState) Unmarshal(l *uio.Lexer) error {
	s.Index, s.Num = l.Read32(), l.Read32()
	return l.Error()
}

// VringAddr says where a ring lies. The addresses are user addresses: those of
// the frontend's own mapping, as given by the memory regions.
type VringAddr struct {
	Index uint32
	Flags uint32 // VringLog
	Desc  uint64
	Used  uint64
	Avail uint64
	Log   uint64 // guest address, valid only with VringLog
}

// VringLog is the flag of VringAddr (bit VHOST_VRING_F_LOG) that asks for writes
// to the used ring to be marked in the dirty log, as if it began at Log.
const VringLog uint32 = 1 << 0

// Marshal appends a to l.
func (a *VringAddr) Marshal(l *uio.Lexer) {
	l.Write32(a.Index)
	l.Write32(a.Flags)
	for _, v := range [...]uint64{a.Desc, a.Used, a.Avail, a.Log} {
		l.Write64(v)
	}
}

// Unmarshal reads a from l.
func (a *VringAddr) Unmarshal(l *uio.Lexer) error {
	a.Index, a.Flags = l.Read32(), l.Read32()
	for _, v := range [...]*uint64{&a.Desc, &a.Used, &a.Avail, &a.Log} {
		*v = l.Read64()
	}
	return l.Error()
}

// Log says where in the file that comes with it the dirty log lies.
type Log struct {
	Size   uint64 // in bytes
	Offset uint64 // in the file, in bytes
}

// Marshal appends g to l.
func (g *Log) Marshal(l *uio.Lexer) {
	l.Write64(g.Size)
	l.Write64(g.Offset)
}

// Unmarshal reads g from l.
func (g *Log) Unmarshal(l *uio.Lexer) error {
	g.Size, g.Offset = l.Read64(), l.Read64()
	return l.Error()
}

// Config is a piece of the device's configuration space.
type Config struct {
	Offset uint32 // in bytes
	Size   uint32 // of Data, in bytes
	Flags  uint32 // 0: the driver writes, 1: live migration
	Data   []byte
}

// Marshal appends c to l.
func (c *Config) Marshal(l *uio.Lexer) {
	l.Write32(c.Offset)
	l.Write32(c.Size)
	l.Write32(c.Flags)
	l.WriteBytes(c.Data)
}

// Unmarshal reads c from l; Data becomes a copy of all that follows the head.
func (c *Config) Unmarshal(l *uio.Lexer) error {
	c.Offset, c.Size, c.Flags = l.Read32(), l.Read32(), l.Read32()
	if err := l.Error(); err != nil {
		return err
	}
	c.Data = l.ReadAll()
	return l.Error()
}
