package netstack

// Worker returns the worker of a pair, which it makes if need be. Parked.
func (g *Group) Worker(pair int) (*Worker, error) { return g.worker(pair) }

// Owned returns how many flows have an owner.
func (g *Group) Owned() int { return g.directory.len() }
