package virtqueue

// The layout of a split ring, virtio 1.2, 2.7.5, 2.7.6 and 2.7.8; all fields
// are little-endian.
//
//	descriptor   le64 addr, le32 len, le16 flags, le16 next
//	available    le16 flags, le16 idx, le16 ring[N],              le16 used_event
//	used         le16 flags, le16 idx, {le32 id, le32 len}[N],    le16 avail_event
const (
	descBytes   = 8 + 4 + 2 + 2
	descAlign   = 16
	availHeader = 2 + 2
	availSlot   = 2
	availAlign  = 2
	usedHeader  = 2 + 2
	usedSlot    = 4 + 4
	usedAlign   = 4
	eventBytes  = 2

	// Where len, flags and next are in the second half of a descriptor.
	lenMask    = 1<<32 - 1
	flagsShift = 32
	nextShift  = 48

	// Descriptor flags, 2.7.5.
	descNext     = 1
	descWrite    = 2
	descIndirect = 4

	// availNoInterrupt in the flags of the available ring: the driver does
	// not want to be called, 2.7.6.
	availNoInterrupt = 1
	// usedNoNotify in the flags of the used ring: the device does not want to
	// be kicked, 2.7.8.
	usedNoNotify = 1

	// noHead is no possible head of a chain: heads are below 32768.
	noHead = 0xffff
)

// DescBytes returns the length of the descriptor table of a split ring.
func DescBytes(size uint16) int { return descBytes * int(size) }

// AvailBytes returns the length of the available ring of a split ring, with the
// event word at its end, which is there with or without EVENT_IDX.
func AvailBytes(size uint16) int { return availHeader + availSlot*int(size) + eventBytes }

// UsedBytes returns the length of the used ring of a split ring, with the event
// word at its end, which is there with or without EVENT_IDX.
func UsedBytes(size uint16) int { return usedHeader + usedSlot*int(size) + eventBytes }
