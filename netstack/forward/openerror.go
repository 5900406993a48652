package forward

import "fmt"

// OpenError says that a rule cannot be met.
type OpenError struct {
	Rule Rule
	Port uint16 // the host's port; 0 if no port of the rule could be had
	Err  error
}

func (e *OpenError) Error() string {
	switch {
	case e.Port == 0 && e.Rule.BestEffort:
		return fmt.Sprintf("forward %v: none of the ports can be had: %v", e.Rule, e.Err)
	case e.Rule.Ports() > 1:
		return fmt.Sprintf("forward %v: port %d: %v", e.Rule, e.Port, e.Err)
	}
	return fmt.Sprintf("forward %v: %v", e.Rule, e.Err)
}

func (e *OpenError) Unwrap() error { return e.Err }
