package header

// ICMP types and codes (RFC 792, RFC 1122, RFC 1812; IANA).
const (
	ICMPEchoReply    = 0
	ICMPUnreachable  = 3
	ICMPEchoRequest  = 8
	ICMPTimeExceeded = 11

	ICMPCodeNet         = 0
	ICMPCodeHost        = 1
	ICMPCodeProtocol    = 2
	ICMPCodePort        = 3
	ICMPCodeFragNeeded  = 4
	ICMPCodeProhibited  = 13
	ICMPCodeTTLExceeded = 0
)

// ICMPv6 types and codes (RFC 4443; IANA).
const (
	ICMPv6Unreachable  = 1
	ICMPv6TooBig       = 2
	ICMPv6TimeExceeded = 3
	ICMPv6EchoRequest  = 128
	ICMPv6EchoReply    = 129

	ICMPv6CodeNoRoute    = 0
	ICMPv6CodeProhibited = 1
	ICMPv6CodeAddress    = 3
	ICMPv6CodePort       = 4
)

// Largest ICMP error messages, in bytes of the IP packet (RFC 1812 section
// 4.3.2.3, RFC 4443 section 2.4 c).
const (
	MaxICMPError   = 576
	MaxICMPv6Error = 1280
)
