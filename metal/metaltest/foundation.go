//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import "unsafe"

// errorData is an NSError.
type errorData struct {
	domain string
	code   int64
	text   string
}

// arrayData is an NSArray.
type arrayData struct{ items []*object }

func (a *arrayData) free(w *World) {
	for _, o := range a.items {
		w.releaseObject(o)
	}
}

func (w *World) newArray(ids []uintptr) *object {
	a := &arrayData{}
	for _, id := range ids {
		o := w.object(id, "NSArray")
		o.refs++
		a.items = append(a.items, o)
	}
	return w.alloc("NSArray", a)
}

func (w *World) newData(b []byte) uintptr { return w.autorelease(w.alloc("NSData", b)) }

// fail sets an NSError out parameter and returns nil.
func (c *call) fail(arg int, domain string, code int64, text string) uintptr {
	if p := c.args[arg][0]; p != 0 {
		*(*uintptr)(pointer(p)) = c.w.autorelease(c.w.alloc("NSError", &errorData{domain, code, text}))
	}
	return 0
}

func (o *object) text() string {
	if s, ok := o.data.(constant); ok {
		return string(s)
	}
	return o.data.(string)
}

func foundationClasses(w *World) {
	w.define("NSObject", nil, methods{}, nil)
	w.define("NSString", nil, methods{
		"UTF8String": {"r*@:", func(c *call) uintptr { return c.w.cstring(c.self.text()) }},
	}, methods{
		"stringWithUTF8String:": {"@@:r*", func(c *call) uintptr { return c.w.newString(cstringAt(uintptr(c.u(0)))) }},
	})
	w.define("NSError", nil, methods{
		"code":                 {"q@:", func(c *call) uintptr { return uintptr(c.self.data.(*errorData).code) }},
		"domain":               {"@@:", func(c *call) uintptr { return c.w.constant(c.self.data.(*errorData).domain) }},
		"localizedDescription": {"@@:", func(c *call) uintptr { return c.w.newString(c.self.data.(*errorData).text) }},
	}, nil)
	w.define("NSData", nil, methods{
		"length": {"Q@:", func(c *call) uintptr { return uintptr(len(c.self.data.([]byte))) }},
		"bytes": {"r^v@:", func(c *call) uintptr {
			return uintptr(unsafe.Pointer(unsafe.SliceData(c.self.data.([]byte))))
		}},
	}, nil)
	w.define("NSArray", nil, methods{
		"count": {"Q@:", func(c *call) uintptr { return uintptr(len(c.self.data.(*arrayData).items)) }},
		"objectAtIndex:": {"@@:Q", func(c *call) uintptr {
			a := c.self.data.(*arrayData)
			c.assert(c.u(0) < uint64(len(a.items)), "index %d beyond bounds %d", c.u(0), len(a.items))
			return a.items[c.u(0)].id
		}},
	}, nil)
	w.define("NSURL", nil, methods{
		"path": {"@@:", func(c *call) uintptr { return c.w.newString(c.self.data.(string)) }},
	}, methods{
		"fileURLWithPath:": {"@@:@", func(c *call) uintptr { return c.w.autorelease(c.w.alloc("NSURL", c.str(0))) }},
	})
	w.define("NSProcessInfo", nil, methods{
		"operatingSystemVersion": {"{?=qqq}@:", func(c *call) uintptr {
			*(*words3)(pointer(c.args[0][0])) = words3{26, 5, 2}
			return 0
		}},
		"operatingSystemVersionString": {"@@:", func(c *call) uintptr { return c.w.newString("Version 26.5.2 (metaltest)") }},
	}, methods{
		"processInfo": {"@@:", func(c *call) uintptr { return c.w.autorelease(c.w.alloc("NSProcessInfo", nil)) }},
	})
}
