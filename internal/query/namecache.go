package query

import "unsafe"

// nameCache finds the value of a string faster than a map does, for strings of which the same few come by the million.
// Equal names of a row group share their bytes, so the address picks a slot without hashing them, and comparing them
// with what the slot holds ends at the equal address. What is not in its slot is looked up in the map.
type nameCache[V any] struct {
	slots [256]struct {
		name  string
		value *V
	}
	all map[string]*V
}

// at returns the value of name, a new zero value the first time.
func (c *nameCache[V]) at(name string) *V {
	slot := &c.slots[slotOf(name)%uintptr(len(c.slots))]
	if slot.value != nil && slot.name == name {
		return slot.value
	}
	if c.all == nil {
		c.all = map[string]*V{}
	}
	v := c.all[name]
	if v == nil {
		v = new(V)
		c.all[name] = v
	}
	slot.name, slot.value = name, v
	return v
}

// slotOf spreads addresses of strings. Only speed depends on it.
func slotOf(s string) uintptr {
	p := uintptr(unsafe.Pointer(unsafe.StringData(s)))
	return p ^ p>>8 ^ p>>16
}
