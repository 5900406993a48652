package guest

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// serveQMP answers as QEMU does, with an event in between, and refuses the command "refused".
func serveQMP(t *testing.T) *VM {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(conn, `{"QMP":{"version":{}}}`)
			for in := bufio.NewScanner(conn); in.Scan(); {
				fmt.Fprintln(conn, `{"event":"STOP","timestamp":{}}`)
				if strings.Contains(in.Text(), "refused") {
					fmt.Fprintln(conn, `{"error":{"class":"GenericError","desc":"not now"}}`)
				} else {
					fmt.Fprintln(conn, `{"return":{}}`)
				}
			}
			conn.Close()
		}
	}()
	return &VM{QMP: path}
}

func TestControl(t *testing.T) {
	vm := serveQMP(t)
	if err := vm.Control("stop"); err != nil {
		t.Error(err)
	}
	if err := vm.Control("refused"); err == nil || !strings.Contains(err.Error(), "qmp refused: not now") {
		t.Errorf("a refused command: %v", err)
	}
	vm.QMP += "-gone"
	if err := vm.Control("stop"); err == nil {
		t.Error("no error without QEMU")
	}
}
