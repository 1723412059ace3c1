//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

// Nil makes a message return nil or 0 and do nothing, for example "FakeQueue commandBuffer".
func (w *World) Nil(classAndSelector string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nils == nil {
		w.nils = map[string]bool{}
	}
	w.nils[classAndSelector] = true
}

// RemoveClass makes a class of the SDK unknown, as on an older system.
func (w *World) RemoveClass(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.classes, name)
}

// RemoveMethod makes all classes lack an instance method, as on an older system.
func (w *World) RemoveMethod(selector string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.classes {
		delete(c.methods, selector)
	}
}

// SetEncoding changes what the runtime says about an instance method; how it is called stays.
func (w *World) SetEncoding(selector, encoding string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.classes {
		if m, ok := c.methods[selector]; ok {
			m.encoding = encoding
			c.methods[selector] = m
		}
	}
}

// SkewHeaps moves the clock that timestamp heaps are written by ahead, from now on.
func (w *World) SkewHeaps(nanos uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.skew = nanos
}
