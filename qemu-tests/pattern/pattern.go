// Package pattern makes test data of any length that both ends of a transfer can produce and check by themselves.
package pattern

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"
)

// reader is a xorshift64* generator: fast, and without repetition that could hide a misplaced segment.
type reader struct {
	state uint64
	left  int64
	word  [8]byte
	used  int // bytes of word that were read
}

// Reader returns bytes bytes of the sequence that seed names. It is for one goroutine at a time.
func Reader(seed uint64, bytes int64) io.Reader {
	return &reader{state: seed*2685821657736338717 + 1, left: bytes, used: 8}
}

func (r *reader) next() uint64 {
	r.state ^= r.state >> 12
	r.state ^= r.state << 25
	r.state ^= r.state >> 27
	return r.state * 2685821657736338717
}

func (r *reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	n := copy(p, r.word[r.used:])
	r.used += n
	for ; len(p)-n >= 8; n += 8 {
		binary.LittleEndian.PutUint64(p[n:], r.next())
	}
	if n < len(p) {
		binary.LittleEndian.PutUint64(r.word[:], r.next())
		r.used = copy(p[n:], r.word[:])
		n += r.used
	}
	r.left -= int64(n)
	return n, nil
}

// Bytes returns the first n bytes of the sequence that seed names.
func Bytes(seed uint64, n int) []byte {
	p := make([]byte, n)
	_, _ = io.ReadFull(Reader(seed, int64(n)), p)
	return p
}

// Digest hashes a stream while counting it.
type Digest struct {
	hash  hash.Hash
	Bytes int64
}

// NewDigest returns the digest of nothing.
func NewDigest() *Digest { return &Digest{hash: sha256.New()} }

// Write never fails.
func (d *Digest) Write(p []byte) (int, error) {
	d.Bytes += int64(len(p))
	return d.hash.Write(p)
}

// Hex returns the SHA-256 of all that was written.
func (d *Digest) Hex() string { return hex.EncodeToString(d.hash.Sum(nil)) }

// Sum returns the SHA-256 of bytes bytes of the sequence that seed names.
func Sum(seed uint64, bytes int64) string {
	d := NewDigest()
	_, _ = io.Copy(d, Reader(seed, bytes))
	return d.Hex()
}
