// Package pidfile writes the file that tells others the daemon's process id.
package pidfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// File is a written pid file.
type File struct {
	path string
	text []byte
}

// Write creates or replaces path, mode 0600, with this process' id and a
// newline. The file appears complete: others wait for it and read it at once.
// A symbolic link at the path's end is replaced, not followed: in a folder
// others can write to, it could lead to any file of the user.
func Write(path string) (*File, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write pid file: %w", err)
	}
	text := strconv.AppendInt(nil, int64(os.Getpid()), 10)
	text = append(text, '\n')
	_, err = f.Write(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write pid file: %w", err), os.Remove(f.Name()))
	}
	return &File{path: path, text: text}, nil
}

// Remove removes the file unless another process has replaced it meanwhile.
func (f *File) Remove() error {
	text, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("remove pid file: %w", err)
	case !bytes.Equal(text, f.text):
		return nil
	}
	if err := os.Remove(f.path); err != nil {
		return fmt.Errorf("remove pid file: %w", err)
	}
	return nil
}
