// Package profiles converts between OTLP profiles and the rows of an archive. It is the only user of pprofile's data model.
//
// OTLP has one sample type per profile. So the rows of one source travel as up to four profiles of a scope: samples/count
// and cpu/nanoseconds (two sides of the same observations where both are there), off_cpu/nanoseconds and events/count. What
// the source says about itself is in attributes of the first of them.
package profiles
