package gvguest_test

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// Feature bits of virtio that concern rings.
const (
	featureIndirect = 1 << 28
	featureEventIdx = 1 << 29
	featureVersion1 = 1 << 32
)

const (
	tso = header.FeatureCsum | header.FeatureHostTSO4 | header.FeatureHostTSO6 |
		header.FeatureGuestCsum | header.FeatureGuestTSO4 | header.FeatureGuestTSO6
	mtu = 1500
)

// setup is a way to use the device.
type setup struct {
	name       string
	features   uint64
	ringSize   uint16
	rxBufBytes int
	memBytes   uint64
}

// linuxSetup is what a Linux guest does with our features.
var linuxSetup = setup{"linux", featureVersion1 | featureEventIdx | featureIndirect | header.FeatureMrgRxBuf | tso, 256, 1536, 16 << 20}

func setups() []setup {
	const v1 = featureVersion1
	return []setup{
		linuxSetup,
		{"nothing negotiated", v1, 64, mtu + header.EthLen + header.VnetLen, 16 << 20},
		{"checksums only", v1 | featureEventIdx | header.FeatureCsum | header.FeatureGuestCsum, 64, 2048, 16 << 20},
		{"big buffers", v1 | featureIndirect | tso, 32, 65536 + 26, 16 << 20},
		{"tiny buffers", v1 | featureEventIdx | header.FeatureMrgRxBuf | tso, 128, 256, 16 << 20},
		{"no mergeable segments", v1 | header.FeatureMrgRxBuf | header.FeatureGuestCsum, 16, 700, 16 << 20},
	}
}
