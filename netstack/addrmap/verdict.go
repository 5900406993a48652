package addrmap

// Verdict says whether a packet from the guest may leave, and if not, why. It
// is an index for counters: see [NumVerdicts].
type Verdict uint8

const (
	OK             Verdict = iota
	SrcUnspecified         // source :: or in 0.0.0.0/8
	SrcLoopback            // source ::1 or in 127.0.0.0/8
	SrcNotUnicast          // source is a multicast or broadcast address
	SrcReserved            // source in 240.0.0.0/4
	SrcEmbedded            // IPv6 source that wraps an IPv4 address
	DstUnspecified         // destination :: or in 0.0.0.0/8
	DstLoopback            // destination ::1 or in 127.0.0.0/8
	DstReserved            // destination in 240.0.0.0/4, except the broadcast address
	DstEmbedded            // IPv6 destination that wraps an IPv4 address
	DstNotUnicast          // TCP to a multicast or broadcast address
	NoSubstitute           // peer on the host's loopback, and we have no address to show for it
	NumVerdicts            // number of verdicts
)

var verdictNames = [NumVerdicts]string{
	"ok", "source unspecified", "source loopback", "source not unicast", "source reserved",
	"source embeds IPv4", "destination unspecified", "destination loopback",
	"destination reserved", "destination embeds IPv4", "destination not unicast",
	"no substitute for a loopback peer",
}

// String returns a short phrase for logs and counter names.
func (v Verdict) String() string {
	if v >= NumVerdicts {
		return "unknown verdict"
	}
	return verdictNames[v]
}
