package netstack

import "github.com/vhost-net-go/vhost-net-go/netstack/hostsock"

// hostFacts are what the host's system says of itself. It is asked once, when the
// first worker is made: the process may be in a sandbox when others are.
type hostFacts struct {
	descriptors        int // that the process may have open
	maxSendBufferBytes int // of a TCP socket; 0: not known
	hasPeekOffset      bool
}

func askHost() (hostFacts, error) {
	n, err := hostsock.DescriptorLimit()
	return hostFacts{
		descriptors:        n,
		maxSendBufferBytes: hostsock.MaxSendBuffer(),
		hasPeekOffset:      hostsock.HasPeekOffset(),
	}, err
}
