package header

import "testing"

const allHostFeatures = FeatureCsum | FeatureHostTSO4 | FeatureHostTSO6 | FeatureHostECN | FeatureHostUSO | FeatureHostUFO

func TestVnetRoundTrip(t *testing.T) {
	want := Vnet{Flags: 1, GSOType: GSOTCPv4 | GSOECN, HdrLen: 66, GSOSize: 1448, CsumStart: 34, CsumOffset: 16, NumBuffers: 3}
	b := make([]byte, VnetLen)
	want.Put(b)
	if got := ParseVnet(b); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestVnetCheckFromGuest(t *testing.T) {
	csum := Vnet{Flags: VnetNeedsCsum, CsumStart: 34, CsumOffset: 16}
	gso := func(typ uint8, size uint16) Vnet {
		v := csum
		v.GSOType, v.GSOSize = typ, size
		return v
	}
	for _, tc := range []struct {
		name     string
		v        Vnet
		features uint64
		frameLen int
		want     Verdict
	}{
		{"plain", Vnet{}, 0, 60, OK},
		{"num_buffers, hdr_len and unknown flags ignored", Vnet{NumBuffers: 9, HdrLen: 65535, Flags: 0xfe}, 0, 60, OK},
		{"checksum", csum, FeatureCsum, 52, OK},
		{"checksum not negotiated", csum, 0, 52, NotNegotiated},
		{"field one byte outside", csum, FeatureCsum, 51, BadVnetCsum},
		{"start outside", Vnet{Flags: VnetNeedsCsum, CsumStart: 65535}, FeatureCsum, 60, BadVnetCsum},
		{"start and offset huge", Vnet{Flags: VnetNeedsCsum, CsumStart: 65535, CsumOffset: 65535}, FeatureCsum, 65536, BadVnetCsum},
		{"start in the Ethernet header", Vnet{Flags: VnetNeedsCsum, CsumStart: 13}, FeatureCsum, 60, BadVnetCsum},
		{"range without the flag is nothing", Vnet{CsumStart: 65535}, FeatureCsum, 60, OK},
		{"TSO4", gso(GSOTCPv4, 1448), allHostFeatures, 9000, OK},
		{"TSO4 with ECN", gso(GSOTCPv4|GSOECN, 1448), allHostFeatures, 9000, OK},
		{"TSO6", gso(GSOTCPv6, 1448), allHostFeatures, 9000, OK},
		{"USO", gso(GSOUDPL4, 1400), allHostFeatures, 9000, OK},
		{"UFO", gso(GSOUDP, 1400), allHostFeatures, 9000, OK},
		{"TSO4 not negotiated", gso(GSOTCPv4, 1448), FeatureCsum | FeatureHostTSO6, 9000, NotNegotiated},
		{"ECN not negotiated", gso(GSOTCPv4|GSOECN, 1448), FeatureCsum | FeatureHostTSO4, 9000, NotNegotiated},
		{"ECN on UDP", gso(GSOUDPL4|GSOECN, 1448), allHostFeatures, 9000, BadVnetGSO},
		{"ECN alone", gso(GSOECN, 1448), allHostFeatures, 9000, BadVnetGSO},
		{"type 2", gso(2, 1448), allHostFeatures, 9000, BadVnetGSO},
		{"size 0", gso(GSOTCPv4, 0), allHostFeatures, 9000, BadVnetGSO},
		{"size 7", gso(GSOTCPv4, 7), allHostFeatures, 9000, BadVnetGSO},
		{"USO of size 0", gso(GSOUDPL4, 0), allHostFeatures, 9000, BadVnetGSO},
		{"USO of size 1", gso(GSOUDPL4, 1), allHostFeatures, 9000, OK},
		{"without checksum", Vnet{GSOType: GSOTCPv4, GSOSize: 1448}, allHostFeatures, 9000, BadVnetGSO},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.v.CheckFromGuest(tc.features, tc.frameLen); got != tc.want {
				t.Errorf("verdict %q, want %q", got, tc.want)
			}
		})
	}
}

func TestVnetMatches(t *testing.T) {
	tcp4, _ := parse(frame4(ProtoTCP, tcpSegment(nil, 10)))
	tcp6, _ := parse(frame6(ProtoTCP, tcpSegment(nil, 10)))
	udp6, _ := parse(frame6(ProtoUDP, udpDatagram(10)))
	udp128, _ := parse(frame6(ProtoUDP, udpDatagram(128)))
	udp129, _ := parse(frame6(ProtoUDP, udpDatagram(129)))
	udp1280, _ := parse(frame6(ProtoUDP, udpDatagram(1280)))
	frag := tcp4
	frag.FragMore = true
	for _, tc := range []struct {
		name string
		v    Vnet
		p    Packet
		want Verdict
	}{
		{"no segmentation", Vnet{CsumStart: 3}, tcp4, OK},
		{"TSO4", Vnet{GSOType: GSOTCPv4, CsumStart: 34, CsumOffset: 16}, tcp4, OK},
		{"TSO6", Vnet{GSOType: GSOTCPv6 | GSOECN, CsumStart: 54, CsumOffset: 16}, tcp6, OK},
		{"USO", Vnet{GSOType: GSOUDPL4, GSOSize: 1400, CsumStart: 54, CsumOffset: 6}, udp6, OK},
		{"USO, 128 segments of 1", Vnet{GSOType: GSOUDPL4, GSOSize: 1, CsumStart: 54, CsumOffset: 6}, udp128, OK},
		{"USO, 129 segments of 1", Vnet{GSOType: GSOUDPL4, GSOSize: 1, CsumStart: 54, CsumOffset: 6}, udp129, BadVnetGSO},
		{"USO, 128 segments of 10", Vnet{GSOType: GSOUDPL4, GSOSize: 10, CsumStart: 54, CsumOffset: 6}, udp1280, OK},
		{"USO, 143 segments of 9", Vnet{GSOType: GSOUDPL4, GSOSize: 9, CsumStart: 54, CsumOffset: 6}, udp1280, BadVnetGSO},
		{"TSO4 on IPv6", Vnet{GSOType: GSOTCPv4, CsumStart: 54, CsumOffset: 16}, tcp6, BadVnetGSO},
		{"TSO6 on UDP", Vnet{GSOType: GSOTCPv6, CsumStart: 54, CsumOffset: 16}, udp6, BadVnetGSO},
		{"USO on TCP", Vnet{GSOType: GSOUDPL4, CsumStart: 34, CsumOffset: 16}, tcp4, BadVnetGSO},
		{"start elsewhere", Vnet{GSOType: GSOTCPv4, CsumStart: 36, CsumOffset: 16}, tcp4, BadVnetGSO},
		{"offset elsewhere", Vnet{GSOType: GSOTCPv4, CsumStart: 34, CsumOffset: 6}, tcp4, BadVnetGSO},
		{"fragment", Vnet{GSOType: GSOTCPv4, CsumStart: 34, CsumOffset: 16}, frag, BadVnetGSO},
	} {
		if got := tc.v.Matches(&tc.p); got != tc.want {
			t.Errorf("%s: verdict %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestVerdictNames(t *testing.T) {
	seen := map[string]bool{}
	for v := range NumVerdicts {
		if s := v.String(); s == "" || seen[s] {
			t.Errorf("verdict %d has the name %q", v, s)
		} else {
			seen[s] = true
		}
	}
	if NumVerdicts.String() != "unknown verdict" {
		t.Error("name beyond the last verdict")
	}
}
