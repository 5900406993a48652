package guest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Control sends one command without arguments, such as "system_reset", to QEMU's control socket and waits for its success.
func (vm *VM) Control(command string) error {
	conn, err := net.DialTimeout("unix", vm.QMP, 2*time.Second)
	if err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	in := bufio.NewReader(conn)
	if _, err := in.ReadBytes('\n'); err != nil { // the greeting
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	for _, c := range []string{"qmp_capabilities", command} {
		if _, err := fmt.Fprintf(conn, "{\"execute\":%q}\n", c); err != nil {
			return fmt.Errorf("qmp %s: %w", c, err)
		}
		if err := readReturn(in); err != nil {
			return fmt.Errorf("qmp %s: %w", c, err)
		}
	}
	return nil
}

// readReturn reads up to the answer to a command; events may come before it.
func readReturn(in *bufio.Reader) error {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		var answer struct {
			Return *json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			return err
		}
		switch {
		case answer.Error != nil:
			return errors.New(answer.Error.Desc)
		case answer.Return != nil:
			return nil
		}
	}
}
