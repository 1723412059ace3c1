// Package profiles converts between OTLP profiles and the rows of an archive. It is the only user of pprofile's data model.
package profiles

import _ "github.com/google/pprof/profile" // pprof payloads
