package logging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/outfile"
)

// keepNumerator/keepDenominator of a full file stay when its oldest part goes:
// rewriting must stay rare compared with writing.
const (
	keepNumerator   = 7
	keepDenominator = 10
)

// File is a log file that never grows beyond its limit: when a write would
// pass it, the oldest lines are dropped. Safe for concurrent use by one
// process; the path stays the same, so that "tail -F" keeps working.
type File struct {
	mu    sync.Mutex
	f     *os.File
	size  int64
	limit int64
}

// OpenFile opens path for appending, or creates it with mode 0600. It follows the
// links that [outfile.Open] does.
func OpenFile(path string, limitBytes int64) (*File, error) {
	f, err := outfile.Open(path, os.O_RDWR)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log file %s: %w", path, err), f.Close())
	}
	return &File{f: f, size: info.Size(), limit: limitBytes}, nil
}

// Write appends p, one or more whole lines. A p longer than the limit loses
// its beginning.
func (l *File) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := p
	if over := int64(len(line)) - l.limit; over > 0 {
		line = line[over:]
	}
	if l.size+int64(len(line)) > l.limit {
		if err := l.drop(l.limit*keepNumerator/keepDenominator - int64(len(line))); err != nil {
			return 0, err
		}
	}
	if n, err := l.f.WriteAt(line, l.size); err != nil {
		if n > 0 { // half a line is none
			err = errors.Join(err, l.f.Truncate(l.size))
		}
		return 0, fmt.Errorf("write log: %w", err)
	}
	l.size += int64(len(line))
	return len(p), nil
}

// drop moves the newest lines, at most keepBytes, to the file's beginning.
func (l *File) drop(keepBytes int64) error {
	tail := make([]byte, max(0, min(keepBytes, l.size)))
	if _, err := l.f.ReadAt(tail, l.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("shorten log: %w", err)
	}
	if int64(len(tail)) < l.size { // cut within a line: begin at the next
		_, tail, _ = bytes.Cut(tail, []byte{'\n'})
	}
	if _, err := l.f.WriteAt(tail, 0); err != nil {
		return fmt.Errorf("shorten log: %w", err)
	}
	if err := l.f.Truncate(int64(len(tail))); err != nil {
		return fmt.Errorf("shorten log: %w", err)
	}
	l.size = int64(len(tail))
	return nil
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
