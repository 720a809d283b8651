# Makes the JSON files of this folder. Run in the folder:
#     Rscript make.R ../../../mixreg/datasets
# flexmix finds the components; BFGS and Newton steps on the log-likelihood itself take them to
# the maximum, and its Hessian gives the standard errors.

suppressMessages({library(flexmix); library(numDeriv); library(jsonlite)})
folder <- commandArgs(TRUE)[1]
control <- list(tolerance = 1e-10, iter.max = 2000, minprior = 0)

cheese <- read.csv(file.path(folder, "cheese.csv"))
cheese$weeks <- ave(cheese$VOLUME, cheese$RETAILER, FUN = length)
cheese$price <- ave(log(cheese$PRICE), cheese$RETAILER)
nmes <- read.csv(file.path(folder, "nmes1988.csv"), stringsAsFactors = TRUE)
nmes$health <- relevel(nmes$health, "average")
npreg <- read.csv(file.path(folder, "npreg.csv"))

density <- function(family, y, eta, sigma) {
  if (family == "poisson") dpois(y, exp(eta), log = TRUE) else dnorm(y, eta, sigma, log = TRUE)
}

# Log-likelihood as a function of one flat vector: coefficients of each component that are its
# own, coefficients in common, log(sigma), and the gate of components 2..k.
likelihood <- function(case) {
  X <- model.matrix(as.formula(case$terms), case$data)
  Z <- model.matrix(as.formula(case$gate), case$data)
  y <- eval(case$response, case$data)
  k <- case$k
  group <- if (is.null(case$groups)) seq_along(y) else {
    as.integer(factor(case$data[[case$groups]], unique(case$data[[case$groups]])))
  }
  Z <- Z[!duplicated(group), , drop = FALSE]
  shared <- colnames(X) %in% case$shared
  n_sigma <- if (case$family == "poisson") 0 else if (case$equal) 1 else k
  sizes <- c(k * sum(!shared), sum(shared), n_sigma, (k - 1) * ncol(Z))
  cut <- function(theta) split(theta, factor(rep(1:4, sizes), levels = 1:4))
  parts <- function(theta) {
    p <- cut(theta)
    B <- matrix(0, k, ncol(X), dimnames = list(NULL, colnames(X)))
    B[, !shared] <- matrix(p[[1]], k, byrow = TRUE)
    B[, shared] <- rep(p[[2]], each = k)
    G <- rbind(0, matrix(p[[4]], k - 1, byrow = TRUE))
    colnames(G) <- colnames(Z)
    list(coef = B, log_sigma = rep(p[[3]], length.out = k * (n_sigma > 0)), gate = G)
  }
  value <- function(theta) {
    p <- parts(theta)
    utility <- Z %*% t(p$gate)
    prior <- utility - log(rowSums(exp(utility - apply(utility, 1, max)))) - apply(utility, 1, max)
    each <- sapply(1:k, function(j) {
      sigma <- if (n_sigma) exp(p$log_sigma[j]) else NA
      rowsum(density(case$family, y, drop(X %*% p$coef[j, ]), sigma), group, reorder = FALSE)
    })
    joint <- prior + each
    top <- apply(joint, 1, max)
    sum(top + log(rowSums(exp(joint - top))))
  }
  pack <- function(p) {
    sigma <- p$log_sigma[seq_len(n_sigma)]
    c(t(p$coef[, !shared]), p$coef[1, shared], sigma, t(p$gate[-1, ] - p$gate[rep(1, k - 1), ]))
  }
  list(value = value, parts = parts, pack = pack, X = X, Z = Z, shared = shared)
}

# flexmix's estimates as such a vector; component 1 is the largest.
flat <- function(fit, lik, case) {
  each <- lapply(fit@components, function(component) component[[1]]@parameters)
  rows <- t(sapply(each, function(p) p$coef[colnames(lik$X)]))
  sigma <- if (case$family != "poisson") log(sapply(each, function(p) p$sigma))
  gate <- if (ncol(lik$Z) == 1) matrix(log(prior(fit)), 1) else parameters(fit, which = "concomitant")
  lik$pack(list(coef = rows, log_sigma = sigma, gate = t(gate)))
}

weights <- function(lik, theta) {
  odds <- exp(lik$Z %*% t(lik$parts(theta)$gate))
  colMeans(odds / rowSums(odds))
}

# Derivatives by differences over a twentieth of a standard error: with steps relative to the
# parameters, those of the cheese data are too long, and standard errors wrong by 4 %.
derivatives <- function(value, theta, scale) {
  at <- function(u) value(theta + scale * u)
  zero <- 0 * theta
  list(g = grad(at, zero, method.args = list(eps = 0.05)) / scale,
       H = hessian(at, zero, method.args = list(eps = 0.05)) / outer(scale, scale))
}

polish <- function(value, theta) {
  theta <- optim(theta, function(t) -value(t), method = "BFGS",
                 control = list(reltol = 1e-14, maxit = 500))$par
  scale <- 1 / sqrt(-diag(hessian(value, theta, method.args = list(d = 1e-3))))
  for (i in 1:6) {
    D <- derivatives(value, theta, scale)
    theta <- theta - solve(D$H, D$g)
    scale <- 1 / sqrt(-diag(D$H))
  }
  list(theta = theta, gain = drop(-D$g %*% solve(D$H, D$g)) / 2, H = D$H)
}

# Standard errors of refit, in the order of the flat vector. Its names tell what is what; those of
# terms that are shared come first and once.
refit_errors <- function(fit, lik, case) {
  found <- sqrt(diag(refit(fit)@vcov))
  what <- sub("^model.1_(Comp.[0-9]+[_.])?(coef.)?", "", names(found))
  gate <- grepl("^concomitant", names(found))
  sigma <- what == "log(sigma)"
  shared <- what %in% colnames(lik$X)[lik$shared]
  c(found[!gate & !sigma & !shared], found[shared], found[sigma], found[gate])
}

as_patsy <- function(names) {
  names <- sub("^\\(Intercept\\)$", "Intercept", names)
  names <- sub("^log\\(", "np.log(", names)
  names <- sub("^I\\(x\\^2\\)$", "I(x ** 2)", names)
  sub("^(health|gender|insurance)(.+)$", "\\1[T.\\2]", names)
}

run <- function(case) {
  set.seed(case$seed)
  best <- NULL
  reached <- c()
  seconds <- system.time(for (i in 1:case$n_starts) {
    fit <- try(case$fit(NULL), silent = TRUE)
    if (inherits(fit, "try-error") || fit@k < case$k) next
    reached <- c(reached, as.numeric(logLik(fit)))
    if (is.null(best) || logLik(fit) > logLik(best)) best <- fit
  })["elapsed"]
  lik <- likelihood(case)
  end <- polish(lik$value, flat(best, lik, case))$theta
  # Number the components by weight at the maximum, largest first, for refit too.
  best <- case$fit(posterior(best)[, order(-weights(lik, end))])
  start <- flat(best, lik, case)
  end <- polish(lik$value, start)
  stopifnot(diff(weights(lik, end$theta)) < 0, end$gain < 1e-12, eigen(end$H)$values < 0)
  named <- function(M) {
    colnames(M) <- as_patsy(colnames(M))
    lapply(seq_len(nrow(M)), function(j) as.list(M[j, , drop = TRUE]))
  }
  report <- function(theta) {
    p <- lik$parts(unname(theta))
    gate <- named(p$gate[-1, , drop = FALSE])
    list(coefficients = named(p$coef), log_sigma = I(p$log_sigma), gate = gate)
  }
  versions <- lapply(c(flexmix = "flexmix", nnet = "nnet", numDeriv = "numDeriv"),
                     function(name) as.character(packageVersion(name)))
  stored <- list(
    case = case$case, call = case$call, software = c(list(R = R.version.string), versions),
    dataset = case$dataset, formula = case$formula, family = case$family,
    concomitant = case$concomitant, groups = case$groups, shared = I(as.character(case$shared_names)),
    equal_variance = case$equal, k = case$k, n = nrow(case$data), df = length(start),
    ml = c(list(llf = lik$value(end$theta), weights = weights(lik, end$theta)), report(end$theta),
           list(se = report(sqrt(diag(solve(-end$H)))))),
    flexmix = c(list(llf = as.numeric(logLik(best)), n_starts = case$n_starts,
                     n_reached = sum(reached > max(reached) - 1e-3), seconds_total = unname(seconds),
                     control = "tolerance 1e-10, iter.max 2000, minprior 0"),
                report(start), list(refit_se = report(refit_errors(best, lik, case)))))
  text <- toJSON(stored, digits = NA, auto_unbox = TRUE, null = "null", pretty = 1)
  writeLines(text, paste0(case$case, ".json"))
  cat(case$case, stored$flexmix$llf, stored$ml$llf, stored$ml$weights, end$gain, "\n")
}

demand <- "visits ~ hospital + health + chronic + gender + school + insurance"
line <- "yn ~ x + I(x ** 2)"
cases <- list(
  list(
    case = "cheese_weeks_k2", seed = 1, n_starts = 15, dataset = "cheese", data = cheese, k = 2,
    family = "gaussian", equal = FALSE, groups = "RETAILER",
    formula = "np.log(VOLUME) ~ DISP + np.log(PRICE)", concomitant = "~ weeks + price",
    response = quote(log(VOLUME)), terms = "~ DISP + log(PRICE)", gate = "~ weeks + price",
    call = paste("flexmix(log(VOLUME) ~ DISP + log(PRICE) | RETAILER, data = cheese, k = 2,",
                 "concomitant = FLXPmultinom(~ weeks + price))"),
    fit = function(start) {
      flexmix(log(VOLUME) ~ DISP + log(PRICE) | RETAILER, data = cheese, k = 2, cluster = start,
              concomitant = FLXPmultinom(~ weeks + price), control = control)
    }),
  list(
    case = "NMES_short_k2", seed = 2, n_starts = 12, dataset = "nmes1988", data = nmes, k = 2,
    family = "poisson", equal = FALSE,
    formula = demand, concomitant = "~ age + gender",
    response = quote(visits), terms = sub("visits", "", demand), gate = "~ age + gender",
    call = paste0("flexmix(", demand, ", data = NMES1988, k = 2, ",
                  "model = FLXMRglm(family = 'poisson'), ",
                  "concomitant = FLXPmultinom(~ age + gender))"),
    fit = function(start) {
      flexmix(as.formula(demand), data = nmes, k = 2, cluster = start,
              model = FLXMRglm(family = "poisson"),
              concomitant = FLXPmultinom(~ age + gender), control = control)
    }),
  list(
    case = "NPreg_x_k2", seed = 3, n_starts = 20, dataset = "npreg", data = npreg, k = 2,
    family = "gaussian", equal = FALSE,
    formula = line, concomitant = "~ x",
    response = quote(yn), terms = "~ x + I(x^2)", gate = "~ x",
    call = "flexmix(yn ~ x + I(x^2), data = NPreg, k = 2, concomitant = FLXPmultinom(~ x))",
    fit = function(start) {
      flexmix(yn ~ x + I(x^2), data = npreg, k = 2, cluster = start,
              concomitant = FLXPmultinom(~ x), control = control)
    }),
  list(
    case = "NPreg_shared_free_k2", seed = 4, n_starts = 20, dataset = "npreg", data = npreg, k = 2,
    family = "gaussian", equal = FALSE, shared = "I(x^2)", shared_names = "I(x ** 2)",
    formula = line, response = quote(yn), terms = "~ x + I(x^2)", gate = "~ 1",
    call = paste("flexmix(yn ~ x, data = NPreg, k = 2,",
                 "model = FLXMRglmfix(fixed = ~ I(x^2), varFix = FALSE))"),
    fit = function(start) {
      flexmix(yn ~ x, data = npreg, k = 2, cluster = start,
              model = FLXMRglmfix(fixed = ~ I(x^2), varFix = FALSE), control = control)
    }),
  list(
    case = "NPreg_shared_equal_k2", seed = 5, n_starts = 20, dataset = "npreg", data = npreg, k = 2,
    family = "gaussian", equal = TRUE, shared = "I(x^2)", shared_names = "I(x ** 2)",
    formula = line, response = quote(yn), terms = "~ x + I(x^2)", gate = "~ 1",
    call = paste("flexmix(yn ~ x, data = NPreg, k = 2,",
                 "model = FLXMRglmfix(fixed = ~ I(x^2), varFix = TRUE))"),
    fit = function(start) {
      flexmix(yn ~ x, data = npreg, k = 2, cluster = start,
              model = FLXMRglmfix(fixed = ~ I(x^2), varFix = TRUE), control = control)
    }))

only <- commandArgs(TRUE)[-1]
for (case in cases) if (!length(only) || case$case %in% only) run(case)
