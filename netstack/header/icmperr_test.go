package header

import (
	"bytes"
	"testing"
)

func TestPutICMPError(t *testing.T) {
	for _, tc := range []struct {
		name     string
		from, to Addr
		quoted   []byte
		e        ICMPError
		wantLen  int
	}{
		{"short IPv4", host4, guest4, frame4(ProtoUDP, udpDatagram(8))[EthLen:], ICMPError{Type: ICMPUnreachable, Code: ICMPCodePort}, 20 + 8 + 36},
		{"long IPv4", host4, guest4, frame4(ProtoUDP, udpDatagram(2000))[EthLen:], ICMPError{Type: ICMPUnreachable, Code: ICMPCodeFragNeeded, MTU: 1400}, 576},
		{"short IPv6", host6, guest6, frame6(ProtoUDP, udpDatagram(8))[EthLen:], ICMPError{Type: ICMPv6Unreachable, Code: ICMPv6CodePort}, 40 + 8 + 56},
		{"long IPv6", host6, guest6, frame6(ProtoUDP, udpDatagram(2000))[EthLen:], ICMPError{Type: ICMPv6TooBig, MTU: 1280}, 1280},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := make([]byte, EthLen+MaxICMPErrorFrame)
			PutEth(b, guestMAC, ourMAC, (&IP{Src: tc.from}).EtherType())
			n := PutICMPError(b[EthLen:], &tc.from, &tc.to, tc.e, tc.quoted)
			if n != tc.wantLen {
				t.Fatalf("%d bytes, want %d", n, tc.wantLen)
			}
			frame := b[:EthLen+n]
			p, v := parse(frame)
			if v != OK || p.Proto != ICMPProto(&tc.to) || p.Src != tc.from || p.Dst != tc.to || p.End != len(frame) {
				t.Fatalf("verdict %v, %+v", v, p)
			}
			msg := frame[p.L4:p.End]
			if !ChecksumOK(msg, &tc.from, &tc.to, p.Proto) {
				t.Error("checksum wrong")
			}
			if msg[0] != tc.e.Type || msg[1] != tc.e.Code || be.Uint32(msg[4:8]) != tc.e.MTU {
				t.Errorf("message begins % x", msg[:8])
			}
			if got := msg[ICMPLen:]; !bytes.Equal(got, tc.quoted[:len(got)]) {
				t.Error("quoted bytes differ")
			}
		})
	}
}
