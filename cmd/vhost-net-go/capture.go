package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/logging"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/outfile"
	"github.com/vhost-net-go/vhost-net-go/netstack/capture"
)

// captureInterface is the name of the guest's link in captures.
const captureInterface = "guest"

// dump is the capture of --pcap.
type dump struct {
	*capture.Capture // nil if there is to be none
	file             *os.File
	path             string
}

// openCapture opens the capture of --pcap, if there is to be one. Frames hold
// what the guest sends in clear text, so that the file is for its owner only,
// whatever it was before.
func openCapture(opts options.Options, log *logging.Log) (dump, error) {
	d := dump{path: opts.PcapFile}
	if d.path == "" {
		return d, nil
	}
	var err error
	if d.file, err = outfile.Open(d.path, os.O_WRONLY); err != nil {
		return dump{}, d.explain(err)
	}
	if d.regular() {
		if err := d.file.Chmod(0o600); err != nil {
			return dump{}, errors.Join(d.explain(err), d.file.Close())
		}
	}
	cfg := capture.Config{
		File: d.file, Interface: captureInterface,
		SnapBytes: opts.PcapSnapBytes, LimitBytes: opts.PcapBytes,
		Ended: func(err error) { log.Warn("the capture has ended", "file", d.path, "cause", err) },
	}
	if cfg.SnapBytes == 0 {
		cfg.SnapBytes = capture.MaxSnapBytes
	}
	d.Capture = capture.New(cfg)
	return d, nil
}

// begin overwrites what the file held before: now there is something better.
func (d *dump) begin() error {
	if d.Capture == nil {
		return nil
	}
	if d.regular() {
		if err := d.file.Truncate(0); err != nil {
			return d.explain(err)
		}
	}
	if err := d.Begin(); err != nil {
		return d.explain(err)
	}
	return nil
}

func (d *dump) regular() bool {
	info, err := d.file.Stat()
	return err == nil && info.Mode().IsRegular()
}

// explain names the option and, once, the path.
func (d *dump) explain(err error) error {
	if pathErr := new(os.PathError); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("-p, --pcap %q: %w", d.path, err)
}

// end closes the file and logs what is missing in it.
func (d *dump) end(log *logging.Log) {
	err := d.Close()
	if missed := d.Missed(); err != nil {
		log.Warn("the capture is not whole", "file", d.path, "error", err, "missed", missed)
	}
}
