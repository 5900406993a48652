package header

// Verdict says why a frame from the guest cannot be used; OK is zero. A
// Verdict is an index for counters: see [NumVerdicts].
type Verdict uint8

const (
	OK            Verdict = iota
	TooShort              // shorter than its headers say
	TooLong               // headers do not end within MaxHeaders
	BadVersion            // IP version does not fit the EtherType
	BadHeaderLen          // IHL or TCP data offset below its minimum
	BadLength             // a length field exceeds the frame, or contradicts another
	BadChecksum           // IPv4 header checksum wrong
	BadExtHeader          // IPv6 extension header chain broken or not acceptable
	BadFragment           // fragment offset or length impossible
	BadAddress            // v4-mapped address in an IPv6 packet
	BadVnetCsum           // checksum range of the virtio-net header outside the frame
	BadVnetGSO            // segmentation fields of the virtio-net header invalid
	NotNegotiated         // offload used that the driver did not accept
	NumVerdicts           // number of verdicts
)

var verdictNames = [NumVerdicts]string{
	"ok", "too short", "headers too long", "bad IP version", "bad header length",
	"bad length field", "bad header checksum", "bad extension header", "bad fragment",
	"bad address", "bad checksum range", "bad segmentation fields", "offload not negotiated",
}

// String returns a short phrase for logs and counter names.
func (v Verdict) String() string {
	if v >= NumVerdicts {
		return "unknown verdict"
	}
	return verdictNames[v]
}
