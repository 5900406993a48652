// Command generate writes the manual page and the completions of vhost-net-go to
// a folder: vhost-net-go.1, .bash, .zsh and .fish.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/manual"
)

func main() {
	version := flag.String("version", "", "of the program")
	epoch := flag.Int64("epoch", time.Now().Unix(), "date of the page, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: generate [-version V] [-epoch N] FOLDER")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), *version, time.Unix(*epoch, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func write(dir, version string, date time.Time) error {
	page, err := manual.Page(version, date.Format(time.DateOnly))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for ending, text := range map[string]string{"1": page, "bash": manual.Bash(), "zsh": manual.Zsh(), "fish": manual.Fish()} {
		if err := os.WriteFile(filepath.Join(dir, "vhost-net-go."+ending), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
