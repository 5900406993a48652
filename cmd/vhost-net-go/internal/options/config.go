package options

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// maxConfigBytes bounds a file of options.
const maxConfigBytes = 1 << 20

// fileError is an error with the line of the file that it is in.
type fileError struct {
	path string
	line int
	err  error
}

func (e *fileError) Error() string {
	return fmt.Sprintf("--config: %s:%d: %v", e.path, e.line, e.err)
}
func (e *fileError) Unwrap() error { return e.err }

// configFile reads a file of options into fs. A line is an option's long name,
// with or without its dashes, and its value behind blanks or an equals sign;
// lines that are empty or begin with # are left out.
func configFile(fs *pflag.FlagSet) func(string) error {
	inside := false
	return func(path string) error {
		if inside {
			return errors.New("a file of options cannot name another one")
		}
		inside = true
		defer func() { inside = false }()
		text, err := os.ReadFile(path)
		switch {
		case err != nil:
			return readError(err)
		case len(text) > maxConfigBytes:
			return fmt.Errorf("is larger than %d bytes", maxConfigBytes)
		case bytes.IndexByte(text, 0) >= 0:
			return errors.New("is no text file")
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if err := setLine(fs, strings.TrimSpace(line)); err != nil {
				return &fileError{path: path, line: n, err: err}
			}
		}
		return nil
	}
}

// readError takes the path, which the option's error has already, out.
func readError(err error) error {
	if pathErr := new(os.PathError); errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// setLine does what one line says, with the rules of the command line.
func setLine(fs *pflag.FlagSet, line string) error {
	if line == "" || line[0] == '#' {
		return nil
	}
	name, value := strings.TrimLeft(line, "-"), ""
	hasValue := false
	if i := strings.IndexAny(name, " \t="); i >= 0 {
		value, hasValue = strings.TrimLeft(name[i:], " \t"), true
		value = strings.TrimLeft(strings.TrimPrefix(value, "="), " \t")
		name = name[:i]
	}
	flag := fs.Lookup(name)
	switch {
	case name == "":
		return fmt.Errorf("%q: not an option; a line is NAME or NAME VALUE", line)
	case flag == nil:
		return fmt.Errorf("%s: there is no such option; --help lists them all, and a file has the long names", name)
	case !hasValue && flag.NoOptDefVal == "":
		return fmt.Errorf("%s: a value is needed after it", flagName(flag))
	case !hasValue:
		value = flag.NoOptDefVal
	}
	if err := fs.Set(name, value); err != nil {
		return explain(err, nil)
	}
	return nil
}
