package synth

// connTable holds the connections: a slab, an index by key, and the list of
// those that have something to send, in the order in which they got it.
type connTable struct {
	slab        []Conn
	unused      []int32
	high        int // connections from here on were never used
	byKey       map[uint64]int32
	first, last int32 // of the work; -1: none
}

func (t *connTable) init(n int) {
	t.slab = make([]Conn, n)
	t.unused = make([]int32, 0, n)
	t.byKey = make(map[uint64]int32, n)
	t.first, t.last = -1, -1
}

// find returns the connection of a key, or nil.
func (t *connTable) find(key uint64) *Conn {
	i, ok := t.byKey[key]
	if !ok {
		return nil
	}
	return &t.slab[i]
}

// add makes a connection, or returns nil if all are in use.
func (t *connTable) add(key uint64) *Conn {
	var i int32
	switch n := len(t.unused); {
	case n > 0:
		i, t.unused = t.unused[n-1], t.unused[:n-1]
	case t.high < len(t.slab):
		i = int32(t.high)
		t.high++
	default:
		return nil
	}
	t.byKey[key] = i
	t.slab[i] = Conn{key: key, self: i, next: -1}
	return &t.slab[i]
}

// remove forgets a connection. One in the list of work is freed when the list
// comes to it.
func (t *connTable) remove(c *Conn) {
	delete(t.byKey, c.key)
	c.state = unused
	if !c.has(inWork) {
		t.unused = append(t.unused, c.self)
	}
}

// work puts c at the end of the list of work.
func (t *connTable) work(c *Conn) {
	if c.has(inWork) {
		return
	}
	c.set(inWork)
	c.next = -1
	if t.last >= 0 {
		t.slab[t.last].next = c.self
	} else {
		t.first = c.self
	}
	t.last = c.self
}

// pop takes the first connection off the list of work; nil: there is none.
func (t *connTable) pop() *Conn {
	for t.first >= 0 {
		c := &t.slab[t.first]
		t.first = c.next
		if t.first < 0 {
			t.last = -1
		}
		c.clear(inWork)
		if c.state != unused {
			return c
		}
		t.unused = append(t.unused, c.self)
	}
	return nil
}

// pushFront puts a connection back that found no room.
func (t *connTable) pushFront(c *Conn) {
	c.set(inWork)
	c.next = t.first
	t.first = c.self
	if t.last < 0 {
		t.last = c.self
	}
}

// Live is the number of connections.
func (g *Guest) Live() int { return len(g.conns.byKey) }
