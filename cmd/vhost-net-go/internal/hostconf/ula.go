package hostconf

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"net/netip"
	"os"
)

// ulaLabel keeps the digest apart from other uses of the machine's id, which
// machine-id(5) asks not to be shown to others as it is.
const ulaLabel = "vhost-net-go guest prefix\x00"

// machineULA returns a prefix derived from the machine's id, so that a guest
// keeps its address when the daemon restarts. Without an id it is random.
func machineULA(path string) netip.Prefix {
	id, err := os.ReadFile(path)
	if id = bytes.TrimSpace(id); err != nil || len(id) == 0 {
		id = make([]byte, 16)
		_, _ = rand.Read(id) // never fails (crypto/rand)
	}
	return ULA(id)
}

// ULA returns a unique local prefix of 64 bits whose 40-bit global identifier
// is drawn from seed (RFC 4193 sections 3.1 and 3.2.2); the subnet is 0.
func ULA(seed []byte) netip.Prefix {
	sum := sha256.Sum256(append([]byte(ulaLabel), seed...))
	a := [16]byte{0: 0xfd}
	copy(a[1:6], sum[:])
	return netip.PrefixFrom(netip.AddrFrom16(a), 64)
}
