// Package dirtylog is the log of dirty pages of live migration: a bitmap in
// memory that is shared with the frontend, in which a device marks the pages of
// guest memory that it has written. The frontend reads and clears it at the same
// time, and copies the marked pages once more.
//
// # Order
//
// A page is marked after it was written. Marked before, its bit could be
// read, cleared and acted upon in between, and the write would be lost. Each
// mark is an atomic read-modify-write operation, which no earlier write of the
// same goroutine passes, on amd64 and on arm64. A look whether the bit is set
// already, to save the operation, would be no such thing.
package dirtylog

import (
	"errors"
	"sync/atomic"
)

// PageSize is the number of bytes that one bit stands for, whatever the size of
// pages is on the machine: VHOST_PAGE_SIZE of linux/vhost_types.h, VHOST_LOG_PAGE
// of the vhost-user specification.
const PageSize = 4096

const (
	wordBits  = 32
	wordBytes = wordBits / 8
)

// Log is a bitmap. Any number of goroutines may mark pages in it.
type Log struct {
	words []uint32
	pages uint64
}

// New returns the Log in bitmap, which has a bit for each page from guest address
// 0 on: page p is bit p%8 of byte p/8. The memory, not copied, must be
// aligned to 4 bytes, and so must its end, or the slice must have the capacity for
// that. It must stay mapped as long as the Log is in use.
func New(bitmap []byte) (*Log, error) {
	words := (len(bitmap) + wordBytes - 1) / wordBytes
	switch {
	case len(bitmap) == 0:
		return nil, errors.New("dirty log is empty")
	case words*wordBytes > cap(bitmap):
		return nil, errors.New("dirty log ends within a word of 4 bytes")
	case !aligned(bitmap):
		return nil, errors.New("dirty log is not aligned to 4 bytes")
	}
	return &Log{words: wordsOf(bitmap, words), pages: uint64(len(bitmap)) * 8}, nil
}

// Covers reports whether the log has bits for all of the n bytes at guestAddr.
func (l *Log) Covers(guestAddr, n uint64) bool {
	if n == 0 {
		return true
	}
	last := guestAddr + n - 1
	return last >= guestAddr && last/PageSize < l.pages
}

// Mark marks the pages of the n bytes at guestAddr, which were written before.
// Pages that the log does not cover are left out. The memory of the log can be
// gone, if its file was cut short; then this panics as any other access to it
// does, see debug.SetPanicOnFault.
func (l *Log) Mark(guestAddr, n uint64) {
	if n == 0 {
		return
	}
	page, last := guestAddr/PageSize, (guestAddr+n-1)/PageSize
	if guestAddr+n-1 < guestAddr || last >= l.pages {
		last = l.pages - 1
	}
	for page <= last {
		// The bits from this page to the last one, or to the end of the word.
		bit := page % wordBits
		bits := min(last-page+1, wordBits-bit)
		mask := uint32((uint64(1)<<bits - 1) << bit)
		atomic.OrUint32(&l.words[page/wordBits], mask)
		page += bits
	}
}
