//go:build (darwin || linux) && (amd64 || arm64)

package metaltest

import (
	"os"
	"strings"
)

func captureClasses(w *World) {
	scope := func(c *call) uintptr {
		c.obj(0)
		return c.w.alloc("FakeCaptureScope", &of{dev: c.obj(0)}).id
	}
	w.define("MTLCaptureManager", nil, methods{
		"newCaptureScopeWithDevice:":       {"@@:@", scope},
		"newCaptureScopeWithCommandQueue:": {"@@:@", scope},
		"supportsDestination:": {"B@:q", func(c *call) uintptr {
			return yes(c.u(0) == 1 || c.u(0) == 2 && c.w.captureOn)
		}},
		"isCapturing": {"B@:", func(c *call) uintptr { return yes(c.w.capturing != "") }},
		"startCaptureWithDescriptor:error:": {"B@:@^@", func(c *call) uintptr {
			d := c.obj(0).data.(*descriptor)
			no := func(code int64, text string) uintptr {
				c.fail(1, "MTLCaptureErrorDomain", code, text)
				return yes(false)
			}
			url := d.obj["url"]
			switch {
			case !c.w.captureOn:
				return no(1, "Capturing is not supported. MTL_CAPTURE_ENABLED must be 1.")
			case c.w.capturing != "":
				return no(2, "A capture is already running.")
			case d.obj["object"] == nil || url == nil || !strings.HasSuffix(url.data.(string), ".gputrace"):
				return no(3, "The descriptor is invalid.")
			}
			if _, err := os.Stat(url.data.(string)); err == nil {
				return no(3, "The output URL exists.")
			}
			c.w.capturing = url.data.(string)
			return yes(true)
		}},
		"stopCapture": {"v@:", func(c *call) uintptr {
			if c.w.capturing != "" {
				if err := os.WriteFile(c.w.capturing, []byte("metaltest capture\n"), 0o600); err != nil {
					c.w.violation("capture: %v", err)
				}
				c.w.capturing = ""
			}
			return 0
		}},
	}, methods{
		"sharedCaptureManager": {"@@:", func(c *call) uintptr { return c.w.manager }},
	})
	w.define("MTLCaptureDescriptor", nil, methods{
		"setCaptureObject:": property("v@:@", "object"),
		"setDestination:":   property("v@:q", "destination"),
		"setOutputURL:":     property("v@:@", "url"),
	}, nil)
	w.define("FakeCaptureScope", []string{"MTLCaptureScope"}, methods{
		"setLabel:":  {"v@:@", func(c *call) uintptr { c.self.data.(*of).label = c.str(0); return 0 }},
		"beginScope": {"v@:", func(*call) uintptr { return 0 }},
		"endScope":   {"v@:", func(*call) uintptr { return 0 }},
	}, nil)
}
