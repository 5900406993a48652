package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"download"}, {"fly", "away"}, {"upload", "url"}, {"udp", "address"}, {"beat", "address"}} {
		if _, _, err := run(args); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, _, err := run([]string{"upload", "url", "many"}); err == nil {
		t.Error("a word is taken for a number")
	}
}

// startServe runs the guest's server at a free port and returns its address.
func startServe(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	go func() { _ = serve(port) }()
	return "127.0.0.1:" + port
}

func TestServe(t *testing.T) {
	address := startServe(t)
	line, bytes, err := run([]string{"tcp", address, "100000"})
	if err != nil || bytes != 100000 || line != "sha256 "+pattern.Sum(1, 100000) {
		t.Errorf("%q, %d, %v", line, bytes, err)
	}
	line, _, err = run([]string{"udp", address, "1", "1472", "9000"})
	if err != nil || line != "[1 1472 9000] bytes, echoed byte-exact" {
		t.Errorf("%q, %v", line, err)
	}
}

func TestTransfersNoticeOneWrongByte(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /right", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Sha256", pattern.Sum(5, 1000))
		_, _ = io.Copy(w, pattern.Reader(5, 1000))
	})
	mux.HandleFunc("GET /wrong", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Sha256", pattern.Sum(5, 1000))
		data := pattern.Bytes(5, 1000)
		data[500] ^= 1
		_, _ = w.Write(data)
	})
	mux.HandleFunc("POST /right", func(w http.ResponseWriter, r *http.Request) {
		d := pattern.NewDigest()
		_, _ = io.Copy(d, r.Body)
		fmt.Fprintln(w, d.Hex())
	})
	mux.HandleFunc("POST /wrong", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintln(w, pattern.Sum(1, 999))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	tests := []struct {
		args []string
		ok   bool
	}{
		{[]string{"download", server.URL + "/right"}, true},
		{[]string{"download", server.URL + "/wrong"}, false},
		{[]string{"download", server.URL + "/missing"}, false},
		{[]string{"upload", server.URL + "/right", "1000"}, true},
		{[]string{"upload", server.URL + "/wrong", "1000"}, false},
	}
	for _, tt := range tests {
		_, bytes, err := run(tt.args)
		if (err == nil) != tt.ok || (tt.ok && bytes != 1000) {
			t.Errorf("%q: %d bytes, %v", tt.args, bytes, err)
		}
	}
}
