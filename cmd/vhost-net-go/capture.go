package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
)

// captureInterface is the name of the guest's link in captures.
const captureInterface = "guest"

// openCapture begins the capture of --pcap, if there is to be one. Frames hold
// what the guest sends in clear text, so that the file is for its owner only.
func openCapture(opts options.Options, log *logging.Log) (*capture.Capture, error) {
	if opts.PcapFile == "" {
		return nil, nil
	}
	f, err := os.OpenFile(opts.PcapFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("-p, --pcap %q: %w", opts.PcapFile, errors.Unwrap(err))
	}
	cfg := capture.Config{
		File: f, Interface: captureInterface,
		SnapBytes: opts.PcapSnapBytes, LimitBytes: opts.PcapBytes,
		Ended: func(err error) { log.Warn("the capture has ended", "file", opts.PcapFile, "cause", err) },
	}
	if cfg.SnapBytes == 0 {
		cfg.SnapBytes = capture.MaxSnapBytes
	}
	c, err := capture.New(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-p, --pcap %q: %w", opts.PcapFile, err), f.Close())
	}
	return c, nil
}
